//go:build linux

package holdings

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

// fixture is the holdings of a registry over a kernel made of Go.
type fixture struct {
	*testing.T
	*Holdings
	k *kerneltest.Kernel
	r *registry.Registry
}

// newFixture begins to run the registry. Run of the holdings is not called.
func newFixture(t *testing.T, proc procfs.FS) *fixture {
	t.Helper()
	k := kerneltest.New()
	clock := registry.Clock{Monotonic: k.Now, Boottime: func() uint64 { return uint64(k.Now()) }, Clock: time.Now}
	r := registry.New(registry.Options{
		Kernel: k, Enforcer: enforcer.New(k, enforcer.Options{Clock: k.Now}), Clock: clock, Proc: proc, Log: zerolog.Nop(), Period: time.Hour,
	})
	h := New(Options{Registry: r, Kernel: k, Proc: proc, Clock: clock, Every: time.Millisecond, Log: zerolog.Nop()})
	r.Attach(h.Hooks())
	ctx, cancel := context.WithCancel(context.Background())
	go r.Run(ctx)
	t.Cleanup(func() { cancel(); <-r.Done() })
	return &fixture{t, h, k, r}
}

// in calls f in the registry's goroutine.
func (f *fixture) in(call func(registry.Tx)) {
	f.Helper()
	if err := f.r.Update(call); err != nil {
		f.Fatal(err)
	}
}

// create has the registry hold a session of a process.
func (f *fixture) create(spec tracer.SessionSpec) (s *registry.Session) {
	f.Helper()
	var err error
	f.in(func(tx registry.Tx) { s, err = tx.Create(spec) })
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// session has the registry hold a session of a new process.
func (f *fixture) session(pid uint32) *registry.Session {
	f.Helper()
	f.k.Add(pid, 1, "lngtest-root")
	return f.create(tracer.SessionSpec{Root: f.k.Proc(pid).Identity, UID: 1000})
}

// apply has the registry apply what the kernel has sent since.
func (f *fixture) apply() {
	f.Helper()
	if err := f.k.Flush(); err != nil {
		f.Fatal(err)
	}
	var batch []tracer.Event
	for {
		var ev tracer.Event
		if err := f.k.Read(&ev); errors.Is(err, tracer.ErrFlushed) {
			break
		} else if err != nil {
			f.Fatal(err)
		}
		batch = append(batch, ev)
	}
	f.in(func(tx registry.Tx) { tx.Apply(batch) })
}

// numbers are the ports that the document of a session has.
func (f *fixture) numbers(s *registry.Session) (all []int) {
	f.Helper()
	f.in(func(tx registry.Tx) { all = tx.Record(s).Ports })
	return all
}

// now is what the members of a session hold.
func (f *fixture) now(s *registry.Session) (all resources.Held) {
	f.Helper()
	f.in(func(tx registry.Tx) { all = f.Held(tx.View, s) })
	return all
}

func addresses(h resources.Held) (all []string) {
	for _, p := range h.Ports {
		all = append(all, p.String())
	}
	return all
}
