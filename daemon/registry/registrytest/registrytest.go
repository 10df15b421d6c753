//go:build linux

// Package registrytest has a registry over a kernel made of Go, for the tests of what is
// attached to a registry.
package registrytest

import (
	"context"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

// Fixture is a registry and what it stands on.
type Fixture struct {
	registry.Options
	K *kerneltest.Kernel
	R *registry.Registry

	tb testing.TB
}

// New makes a registry of a host without processes. It runs
// from Run on: features are attached before.
func New(tb testing.TB, options ...func(*registry.Options)) *Fixture {
	tb.Helper()
	k := kerneltest.New()
	f := &Fixture{tb: tb, K: k, Options: registry.Options{
		Kernel: k, Proc: procfs.FS(tb.TempDir()), Log: zerolog.Nop(), Period: time.Hour,
		Clock: registry.Clock{
			Monotonic: k.Now,
			Boottime:  func() uint64 { return uint64(k.Now()) },
			Clock:     func() time.Time { return time.Unix(0, 0) },
		},
	}}
	for _, o := range options {
		o(&f.Options)
	}
	f.Enforcer = enforcer.New(f.Kernel, enforcer.Options{Clock: k.Now})
	f.R = registry.New(f.Options)
	return f
}

// Ground is what features stand on.
func (f *Fixture) Ground() registry.Ground {
	return registry.Ground{Registry: f.R, Kernel: f.Kernel, Proc: f.Proc, Clock: f.Clock, Log: f.Log}
}

// Run has the registry run until the test is over. Its result stops it before.
func (f *Fixture) Run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	go f.R.Run(ctx)
	stop = func() { cancel(); <-f.R.Done() }
	f.tb.Cleanup(stop)
	return stop
}

// Ingest has the registry read the kernel's events until the test is over.
func (f *Fixture) Ingest() {
	read := make(chan error, 1)
	go func() { read <- f.R.Ingest() }()
	f.tb.Cleanup(func() {
		_ = f.K.CloseRead()
		f.R.CloseIngest()
		if err := <-read; err != nil {
			f.tb.Error(err)
		}
	})
}

// Update changes the registry.
func (f *Fixture) Update(change func(registry.Tx)) {
	f.tb.Helper()
	require.NoError(f.tb, f.R.Update(change))
}

// Session makes a session of a process, which it adds unless the kernel has it.
func (f *Fixture) Session(root, uid uint32) *registry.Session {
	f.tb.Helper()
	if f.K.Proc(root) == nil {
		f.K.Add(root, 1, "lngtest-root")
		f.K.Edit(root, func(p *kerneltest.Proc) { p.UID = uid })
	}
	return f.Create(tracer.SessionSpec{Root: f.K.Proc(root).Identity, UID: uid})
}

// Create makes a session.
func (f *Fixture) Create(spec tracer.SessionSpec) (s *registry.Session) {
	f.tb.Helper()
	f.Update(func(tx registry.Tx) {
		var err error
		if s, err = tx.Create(spec); err != nil {
			f.tb.Error(err)
		}
	})
	if s == nil {
		f.tb.FailNow()
	}
	return s
}
