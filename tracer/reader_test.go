//go:build linux

package tracer_test

import (
	"errors"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// A ring of one page and nobody who reads: the loss is told, and exact, and
// every survivor is still attributed.
func TestLostEvents(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{RingSize: 4096})
	w := program(t, "bomb", "300")
	id := create(t, tr, w, tracer.SessionSpec{})
	w.goOn()
	w.until("ready")
	before, err := tr.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if before["events_lost"] == 0 {
		t.Fatal("nothing was lost: the test is void")
	}
	events := collect(t, tr)
	var lost uint64
	for ev := range events {
		if ev.Type == tracer.EventLost {
			lost += ev.Count
		}
		if lost >= before["events_lost"] {
			break
		}
	}
	if lost != before["events_lost"] {
		t.Errorf("told %d, lost %d", lost, before["events_lost"])
	}
	s, err := tr.Session(id)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(members(t, tr, id)); int64(got) != s.Live || got < 300 {
		t.Errorf("%d members in the snapshot, %d live", got, s.Live)
	}
	tr.End(id, tracer.CauseEnd, 0)
	w.gone()
	w.wait()
	settled(t, tr, id)
}

// What happened before a flush is told before it is.
func TestFlush(t *testing.T) { everySide(t, testFlush) }

func testFlush(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	w := start(t, `for n in 1 2 3; do sleep 60 & done; echo; read go; for n in 1 2 3; do sleep 60 & done; echo; read go`)
	id := create(t, tr, w, tracer.SessionSpec{})
	births := 0
	for _, want := range []int{4, 7} {
		w.goOn()
		w.line()
		if err := tr.Flush(); err != nil {
			t.Fatal(err)
		}
		var ev tracer.Event
		err := tr.Read(&ev)
		for ; err == nil; err = tr.Read(&ev) {
			if ev.Type == tracer.EventBirth {
				births++
			}
		}
		if !errors.Is(err, tracer.ErrFlushed) || births != want {
			t.Errorf("%v after %d births, want %d", err, births, want)
		}
	}
	tr.End(id, tracer.CauseEnd, 0)
	settled(t, tr, id)
}

// Whoever closes while another goroutine begins to read, or reads, takes nothing
// away from it.
func TestCloseWhileReading(t *testing.T) {
	o := tracer.Options{Dir: tracertest.Dir(t)}
	for range 20 {
		tr, err := tracer.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		begun, read := make(chan struct{}), make(chan error, 1)
		go func() {
			close(begun)
			read <- tr.Read(new(tracer.Event))
		}()
		<-begun
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		if err, _ := receive(t, "the reader hears of the close", read); !errors.Is(err, os.ErrClosed) {
			t.Fatal(err)
		}
	}
}

// Many events in order, none lost, with the default ring.
func TestReadKeepsUp(t *testing.T) { everySide(t, testReadKeepsUp) }

func testReadKeepsUp(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	events := collect(t, tr)
	w := program(t, "vforkstorm", "20000", "1", "4")
	id := create(t, tr, w, tracer.SessionSpec{})
	w.goOn()
	w.until("storm")
	tr.End(id, tracer.CauseEnd, 0)
	w.gone()
	w.wait()
	s := settled(t, tr, id)
	var births, exits uint64
	next := map[uint32]bool{}
	for ev := range events {
		switch ev.Type {
		case tracer.EventLost:
			t.Errorf("%d lost", ev.Count)
		case tracer.EventBirth:
			births++
			next[ev.Process.PID] = true
		case tracer.EventExit:
			exits++
			if !next[ev.Process.PID] {
				t.Errorf("%v exits before its birth", ev.Process)
			}
			delete(next, ev.Process.PID)
		}
		if ev.Type == tracer.EventSession && ev.State == tracer.StateEmpty {
			break
		}
	}
	if births != s.Forks+1 || exits != births {
		t.Errorf("%d births, %d exits, %d forks", births, exits, s.Forks)
	}
	t.Logf("figure: %d forks in a storm of 1 s, %d births, %d exits", s.Forks, births, exits)
}
