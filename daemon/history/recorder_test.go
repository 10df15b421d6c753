//go:build linux

package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// newRecorder records one session of a registry; execs makes its root exec other programs.
func newRecorder(t *testing.T) (r *Recorder, execs func(n int)) {
	t.Helper()
	f := registrytest.New(t)
	ring := NewRing(1, RingSize)
	j := OpenJournal(filepath.Join(t.TempDir(), "history.db"), JournalOptions{Boot: "boot", Now: time.Now})
	r = NewRecorder(Options{Ground: f.Ground(), Ring: ring, Journal: j, Boot: "boot", Redact: policy.Default().Redact})
	f.R.Attach(ring.Hooks(), r.Hooks())
	t.Cleanup(j.Close)
	f.Run()
	s := f.Session(100, 0)
	exec := tracer.Event{Type: tracer.EventExec, Time: 1, Process: f.K.Proc(100).Identity, Session: s.ID(), Filename: []byte("/bin/a"), Argv: []byte("a\x00")}
	return r, func(n int) {
		batch := make([]tracer.Event, n)
		for i := range batch {
			batch[i] = exec
		}
		f.Update(func(tx registry.Tx) { tx.Apply(batch) })
	}
}

// A dissolved session: its rows are deleted, and nothing is written of its processes.
func TestRecorderLetsGo(t *testing.T) {
	r, execs := newRecorder(t)
	_, err := r.Registry.Resync(registry.CauseNone)
	require.NoError(t, err)
	execs(1)
	r.flush(time.Minute)
	live, err := r.Journal.Live(t.Context())
	if err != nil || len(live) != 1 {
		t.Fatalf("%+v, %v", live, err)
	}
	id := live[0].ID
	rows := func() int {
		processes, err := r.Journal.Processes(t.Context(), "boot", id)
		require.NoError(t, err)
		return len(processes)
	}
	if rows() == 0 || len(r.rows) == 0 {
		t.Fatal("no process was recorded")
	}
	execs(1) // of the process, before it is known where it is
	require.NoError(t, r.Registry.Update(func(tx registry.Tx) { tx.LetGo(id) }))
	if r.flush(time.Minute); rows() != 0 || len(r.rows) != 0 {
		t.Errorf("%d rows of processes, %d noted", rows(), len(r.rows))
	}
	if all, err := r.Journal.Live(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if len(r.marks.letGo) != 0 {
		t.Error("its rows would be deleted again")
	}
}

// However much there is to write, one turn of the recorder ends: in a storm the CPU
// time is for the registry.
func TestRecorderTurn(t *testing.T) {
	r, execs := newRecorder(t)
	first := r.next
	execs(3 * MaxBlock)
	if r.flush(0); r.next != first {
		t.Errorf("%d events in a turn that was over", r.next-first)
	}
	if r.flush(time.Nanosecond); r.next-first >= 2*MaxBlock {
		t.Errorf("%d events in a turn for one batch", r.next-first)
	}
	if r.flush(time.Minute); r.next-first < 3*MaxBlock {
		t.Errorf("%d events when there was time for all", r.next-first)
	}
}

// TestLongSubjects: a block has few events of sessions with long command lines, so that it stays within its bound.
func TestLongSubjects(t *testing.T) {
	r, _ := newRecorder(t)
	r.flush(time.Minute)
	first := r.next
	require.NoError(t, r.Registry.Update(func(tx registry.Tx) {
		for s := range tx.Sessions() {
			long := tracer.Event{Type: tracer.EventExec, Time: 2, Process: s.Info().Root, Session: s.ID(), Argv: append(bytes.Repeat([]byte{1}, 4094), 0)}
			active := tracer.Event{Type: tracer.EventSession, Time: 3, Session: s.ID(), State: tracer.StateActive}
			tx.Apply(append([]tracer.Event{long}, slices.Repeat([]tracer.Event{active}, 400)...))
		}
	}))
	if more := r.turn(MaxBlock - 1); !more || r.next-first > 200 {
		t.Errorf("more %v, %d events", more, r.next-first)
	}
	if r.flush(time.Minute); r.next-first != 401 {
		t.Errorf("%d events", r.next-first)
	}
}

// TestMarksInStorm: sessions that are saved in a storm are written with few of its events.
func TestMarksInStorm(t *testing.T) {
	r, execs := newRecorder(t)
	r.flush(time.Minute)
	first := r.next
	execs(2 * MaxBlock)
	save(r)
	if more := r.turn(recordChunk); !more || unsaved(r) != 0 || r.next-first != recordChunk {
		t.Errorf("more %v, %d sessions unsaved, %d events", more, unsaved(r), r.next-first)
	}
}

// A turn with nothing to write allocates almost nothing: there are four a second. A batch of a storm is
// made at its size: what it would grow through is garbage of megabytes.
func TestRecorderAllocates(t *testing.T) {
	r, execs := newRecorder(t)
	r.flush(time.Minute)
	allocated := func(do func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	const turns = 100
	if n := allocated(func() {
		for range turns {
			r.flush(time.Minute)
		}
	}) / turns; n > 16<<10 {
		t.Errorf("%d bytes a turn", n)
	}
	execs(MaxBlock - 1)
	const event = unsafe.Sizeof(RecentEvent{}) + unsafe.Sizeof(Record{})
	if n := allocated(func() { r.batch(MaxBlock - 1) }) / (MaxBlock - 1); n > uint64(event)*5/4 {
		t.Errorf("%d bytes an event, which takes %d", n, event)
	}
}

// TestGathers: events that come a few at a time are written together. In a block of its own each would repeat
// the command line that others have.
func TestGathers(t *testing.T) {
	r, execs := newRecorder(t)
	r.flush(time.Minute)
	r.pauses.period, r.pauses.gather = time.Millisecond, time.Hour
	first := r.next
	r.Begin()
	for range 40 {
		execs(5)
		time.Sleep(5 * r.pauses.period)
	}
	r.End()
	j := OpenJournal(r.Journal.Path(), JournalOptions{Boot: "boot", Now: time.Now})
	defer j.Close()
	blocks := 0
	for b := new(Block); b != nil; blocks++ {
		var err error
		b, err = j.Next(t.Context(), b.ID, time.Time{}, "boot", first)
		require.NoError(t, err)
	}
	if blocks > 4 { // at the beginning, for the session, at the end; then nil
		t.Errorf("%d blocks of 200 events", blocks-1)
	}
}

// TestRowBytes: a row of a process does not say twice what is the same, and says all that is not.
func TestRowBytes(t *testing.T) {
	r, _ := newRecorder(t)
	fork := lineage.Node{
		ID: lineage.ID{PID: 9, Start: 57126226758733}, Session: 7, Evidence: lineage.Fork, Creator: lineage.ID{PID: 8, Start: 57120090540215}, State: lineage.Exited,
		Commands: []lineage.Command{{Time: 57126226758733, Comm: "lngtest-fork", Exe: "/usr/bin/lngtest-fork", Argv: []string{"lngtest-fork", "20000", "10"}}},
		Looks:    lineage.Looks{Comm: lineage.CommOf("lngtest-fork"), Cgroup: 1}, Exited: 57126283128922, StatusKnown: true, CPUTime: 53578, MaxRSS: 19877888,
	}
	fork.Parent = fork.Creator
	for name, change := range map[string]func(*lineage.Node){
		"fork":       func(*lineage.Node) {},
		"orphan":     func(n *lineage.Node) { n.Parent = lineage.ID{PID: 1, Start: 1} },
		"no parent":  func(n *lineage.Node) { n.Parent = lineage.ID{} },
		"renamed":    func(n *lineage.Node) { n.Comm = lineage.CommOf("other") },
		"nameless":   func(n *lineage.Node) { n.Comm = lineage.Comm{} },
		"no command": func(n *lineage.Node) { n.Commands = nil },
	} {
		n, b := fork, new(batch)
		change(&n)
		full, err := json.Marshal(&n)
		require.NoError(t, err)
		before := n
		r.process(b, &n, true, true)
		if got := decodeNodes(b.Processes); len(got) != 1 || !reflect.DeepEqual(got[0], before) {
			t.Errorf("%s: read\n%+v\nwant\n%+v", name, got, before)
		}
		if size := len(b.Processes[0].Doc); name == "fork" && size > len(full)*5/6 {
			t.Errorf("%d bytes, %d with what is the same", size, len(full))
		}
	}
}

// TestSavedAtRest: a session that is saved while the recorder rests is written after the rest,
// though nothing else happens: the last receipt of a quiet host survives a daemon that is killed.
func TestSavedAtRest(t *testing.T) {
	r, _ := newRecorder(t)
	r.Begin()
	defer r.End()
	for range 5 { // within the rest after the first
		save(r)
		time.Sleep(r.pauses.period / 5)
	}
	require.Eventually(t, "it is saved", func() bool { return unsaved(r) == 0 })
}

// TestSavedInRest: a session that is saved waits until the recorder has rested for the CPU time of the last
// batch. When many end at once, a batch for each would take the CPU from their members.
func TestSavedInRest(t *testing.T) {
	r, _ := newRecorder(t)
	r.pauses.share = 1e6
	r.Begin()
	defer r.End()
	require.Eventually(t, "it is saved", func() bool { return unsaved(r) == 0 }) // the first batch
	save(r)
	if time.Sleep(50 * time.Millisecond); unsaved(r) != 1 {
		t.Error("written at once")
	}
}

func save(r *Recorder) {
	_ = r.Registry.Update(func(tx registry.Tx) {
		for s := range tx.Sessions() {
			tx.Save(s)
		}
	})
}

func unsaved(r *Recorder) (n int) {
	_ = r.Registry.Read(func(registry.View) { n = len(r.marks.unsaved) })
	return n
}

// TestRecorderEndsLate: End does not wait for a last batch that takes too long, and the
// journal is closed when it is written.
func TestRecorderEndsLate(t *testing.T) {
	r, _ := newRecorder(t)
	r.pauses.limit = time.Millisecond
	busy, free := make(chan struct{}), make(chan struct{})
	go func() {
		_ = r.Registry.Read(func(registry.View) { close(busy); <-free })
	}()
	<-busy
	r.marks.unsaved[1] = true // of the registry's goroutine, which waits for us
	r.Begin()
	r.End()
	read := func() error {
		_, err := r.Journal.Ended(t.Context(), Query{Limit: 1})
		return err
	}
	if err := read(); err != nil {
		t.Errorf("it was closed while it was written: %v", err)
	}
	close(free)
	require.Eventually(t, "it is closed", func() bool { return errors.Is(read(), ErrUnusable) }) // it is closed
}
