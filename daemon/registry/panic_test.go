//go:build linux

package registry

import (
	"errors"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// lngtestPanic is in the stack of each panic of these tests.
//
//go:noinline
func lngtestPanic() { panic("lngtest-panic") }

// TestPanics: a call that panics does so in its caller's goroutine. After a read the registry
// continues; where its state may be half changed, it stops, and the daemon with it.
func TestPanics(t *testing.T) {
	type world struct {
		*Registry
		k *kerneltest.Kernel
	}
	exec := func(w world) error {
		w.k.Exec(100, "/bin/lngtest", "lngtest\x00")
		return w.Ingest()
	}
	for name, x := range map[string]struct {
		hooks  Hooks
		call   func(world) error
		raised bool // in the caller
		stops  bool
	}{
		"Read":     {call: func(w world) error { return w.Read(func(View) { lngtestPanic() }) }, raised: true},
		"ReadLast": {call: func(w world) error { return w.ReadLast(func(View) { lngtestPanic() }) }, raised: true},
		"ReadFor": {call: func(w world) error {
			return w.ReadFor(access.Caller{UID: 1000}, func(View) { lngtestPanic() })
		}, raised: true},
		"Update": {call: func(w world) error { return w.Update(func(Tx) { lngtestPanic() }) }, raised: true, stops: true},
		"own call": {hooks: Hooks{Walking: func(View) Want { lngtestPanic(); return WantNone }}, call: func(w world) error {
			_, err := w.Resync(CauseMember)
			return err
		}, raised: true, stops: true},
		"read that enters a session": {hooks: Hooks{Opened: func(View, *Session) { lngtestPanic() }}, call: func(w world) error {
			w.k.Add(300, 1, "lngtest-other")
			id, err := w.k.Create(tracer.SessionSpec{Root: w.k.Proc(300).Identity})
			return errors.Join(err, w.Read(func(v View) { v.Ask(id) }))
		}, raised: true, stops: true},
		"hook of an event": {hooks: Hooks{Execed: func(View, *Session, *tracer.Event) { lngtestPanic() }}, call: exec, stops: true},
		"batch of events":  {hooks: Hooks{Published: func(View, []tracer.Event) { lngtestPanic() }}, call: exec, stops: true},
		"goroutine": {call: func(w world) error {
			go w.Guard(lngtestPanic)
			err := <-w.Failed()
			if !errors.Is(err, errPanic) {
				return err
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r, k := newRegistry(t)
			s := session(t, r, k, 100)
			r.Attach(&x.hooks)
			runs(t, r)
			go func() { <-r.Done(); k.Close() }()
			p := procfs.CatchPanic(func() {
				if err := x.call(world{r, k}); err != nil {
					t.Error(err)
				}
			})
			if (p != nil) != x.raised || x.raised && (p.Value != "lngtest-panic" || !strings.Contains(string(p.Stack), "lngtestPanic")) {
				t.Errorf("raised %v", p)
			}
			if x.stops {
				<-r.Done()
				if err := <-r.Failed(); !errors.Is(err, errPanic) || !strings.Contains(err.Error(), "lngtest-panic") {
					t.Error(err)
				}
			}
			if err := r.Read(func(v View) {
				if v.Session(s.ID()) == nil {
					t.Error("the session is not there")
				}
			}); x.stops != errors.Is(err, ErrStopping) {
				t.Error(err)
			}
		})
	}
}
