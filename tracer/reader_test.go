//go:build linux

package tracer_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// A ring of one page without a reader: the loss is reported, and exact, it shows in the
// sequence numbers of the CPU, and every survivor is still attributed. Deaths without
// an event are counted.
func TestLostEvents(t *testing.T) { everySide(t, testLostEvents) }

func testLostEvents(t *testing.T, o tracer.Options) {
	o.RingSize = 4096
	tr := tracertest.New(t, o)
	w := program(t, "bomb", "300")
	onOneCPU(t, w)
	id := create(t, tr, w, tracer.SessionSpec{})
	w.goOn()
	w.until("ready")
	lost := counter(t, tr, "events_lost")
	if lost == 0 {
		t.Fatal("nothing was lost: the test is void")
	}
	var reported, next uint64
	for _, ev := range flushed(t, tr) {
		switch ev.Type {
		case tracer.EventLost:
			reported += ev.Count
		case tracer.EventBirth:
			next = ev.Seq + 1
		}
	}
	require.Equal(t, reported, lost)
	all := members(t, tr, id)
	if s, err := tr.Session(id); err != nil || int64(len(all)) != s.Live || len(all) < 300 {
		t.Errorf("%d members in the snapshot: %+v, %v", len(all), s, err)
	}

	last := all[len(all)-1]
	require.NoError(t, unix.Kill(int(last.PID), unix.SIGKILL))
	until(t, "one has died", func() bool {
		s, err := tr.Session(id)
		return err == nil && s.Live == int64(len(all))-1
	})
	exits := slices.DeleteFunc(flushed(t, tr), func(ev tracer.Event) bool { return ev.Type != tracer.EventExit })
	if len(exits) != 1 || exits[0].Process != last.Identity || exits[0].Seq != next+lost {
		t.Errorf("after number %d and %d lost events: %+v", next-1, lost, exits)
	}

	endAll(t, tr, id, w)
	now := counter(t, tr, "events_lost")
	if now == lost {
		t.Error("no exit was lost")
	}
	for _, ev := range flushed(t, tr) { // of losses that no event follows
		if ev.Type == tracer.EventLost {
			lost += ev.Count
		}
	}
	require.Equal(t, lost, now)
	require.Equal(t, counter(t, tr, "live_drift"), 0)
}

// onOneCPU keeps the workload on one CPU: its events have one series of numbers.
func onOneCPU(t *testing.T, w *workload) {
	t.Helper()
	var all, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	require.NoError(t, unix.SchedSetaffinity(int(w.pid()), &one))
}

func flushed(t *testing.T, tr *tracer.Tracer) (all []tracer.Event) {
	t.Helper()
	require.NoError(t, tr.Flush())
	var ev tracer.Event
	err := tr.Read(&ev)
	for ; err == nil; err = tr.Read(&ev) {
		all = append(all, ev)
	}
	if !errors.Is(err, tracer.ErrFlushed) {
		t.Fatal(err)
	}
	return all
}

// What happened before a flush is reported before [ErrFlushed].
func TestFlush(t *testing.T) { onEachSide(t, testFlush) }

func testFlush(t *testing.T, tr *tracer.Tracer) {
	w, id := startIn(t, tr, `for n in 1 2 3; do sleep 60 & done; echo; read go; for n in 1 2 3; do sleep 60 & done; echo; read go`)
	births := 0
	for _, want := range []int{4, 7} {
		w.goOn()
		w.line()
		for _, ev := range flushed(t, tr) {
			if ev.Type == tracer.EventBirth {
				births++
			}
		}
		require.Equal(t, births, want)
	}
	tr.End(id, tracer.CauseEnd, 0)
	settled(t, tr, id)
}

// A close while another goroutine reads, or begins to read, does not free what it uses.
func TestCloseWhileReading(t *testing.T) {
	o := tracer.Options{Dir: tracertest.Dir(t)}
	for range 20 {
		tr, err := tracer.Open(o)
		require.NoError(t, err)
		begun, read := make(chan struct{}), make(chan error, 1)
		go func() {
			close(begun)
			read <- tr.Read(new(tracer.Event))
		}()
		<-begun
		require.NoError(t, tr.Close())
		if err, _ := receive(t, "the reader hears of the close", read); !errors.Is(err, os.ErrClosed) {
			t.Fatal(err)
		}
	}
}
