//go:build linux

package history

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/journal"
	"github.com/lineage-ebpf/lineage/daemon/recent"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

// newRecorder records one session of a registry; execs makes its root other programs.
func newRecorder(t *testing.T) (r *Recorder, execs func(n int)) {
	t.Helper()
	k := kerneltest.New()
	c := registry.Clock{Monotonic: k.Now, Boottime: func() uint64 { return uint64(k.Now()) }, Clock: time.Now}
	o := registry.New(registry.Options{
		Kernel: k, Enforcer: enforcer.New(k, enforcer.Options{Clock: k.Now}), Clock: c, Proc: procfs.FS(t.TempDir()), Log: zerolog.Nop(),
	})
	ring := recent.New(1, recent.Size)
	j := journal.Open(filepath.Join(t.TempDir(), "history.db"), journal.Options{})
	r = New(o, ring, j, "boot", c, policy.Default().Redact, zerolog.Nop())
	o.Attach(ring.Hooks(), r.Hooks())
	ctx, cancel := context.WithCancel(t.Context())
	go o.Run(ctx)
	t.Cleanup(func() {
		cancel()
		<-o.Done()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	k.Add(100, 1, "lngtest-root")
	var exec tracer.Event
	if err := o.Update(func(tx registry.Tx) {
		s, err := tx.Create(tracer.SessionSpec{Root: k.Proc(100).Identity})
		if err != nil {
			t.Error(err)
			return
		}
		exec = tracer.Event{Type: tracer.EventExec, Time: 1, Process: k.Proc(100).Identity, Session: s.ID(), Filename: []byte("/bin/a"), Argv: []byte("a\x00")}
	}); err != nil {
		t.Fatal(err)
	}
	return r, func(n int) {
		batch := make([]tracer.Event, n)
		for i := range batch {
			batch[i] = exec
		}
		if err := o.Update(func(tx registry.Tx) { tx.Apply(batch) }); err != nil {
			t.Fatal(err)
		}
	}
}

// However much there is to write, a turn of the recorder ends: in a storm the
// time is the registry's.
func TestRecorderTurn(t *testing.T) {
	r, execs := newRecorder(t)
	first := r.next
	execs(3 * journal.MaxBlock)
	if r.flush(0); r.next != first {
		t.Errorf("%d events in a turn that was over", r.next-first)
	}
	if r.flush(time.Nanosecond); r.next-first >= 2*journal.MaxBlock {
		t.Errorf("%d events in a turn for one batch", r.next-first)
	}
	if r.flush(time.Minute); r.next-first < 3*journal.MaxBlock {
		t.Errorf("%d events when there was time for all", r.next-first)
	}
}

// A turn with nothing to write takes next to no memory: there are four a second.
func TestRecorderAtRest(t *testing.T) {
	r, _ := newRecorder(t)
	r.flush(time.Minute)
	const turns = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range turns {
		r.flush(time.Minute)
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / turns; n > 16<<10 {
		t.Errorf("%d bytes a turn", n)
	}
}

// TestRecorderEndsLate: a last batch that is not written in time is not waited for, and
// the journal is closed when it is over.
func TestRecorderEndsLate(t *testing.T) {
	r, _ := newRecorder(t)
	r.limit = time.Millisecond
	busy, free := make(chan struct{}), make(chan struct{})
	go func() {
		_ = r.registry.Read(func(registry.View) { close(busy); <-free })
	}()
	<-busy
	r.marks.unsaved[1] = true // of the registry's goroutine, which waits for us
	r.Begin()
	r.End()
	read := func() error {
		_, err := r.journal.Ended(t.Context(), journal.Query{Limit: 1})
		return err
	}
	if err := read(); err != nil {
		t.Errorf("it was closed while it was written: %v", err)
	}
	close(free)
	for end := time.Now().Add(time.Minute); !errors.Is(read(), journal.ErrUnusable); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the journal stays open")
		}
	}
}
