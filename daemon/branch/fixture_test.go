//go:build linux

package branch

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

// scripted is a kernel in which something happens right before it is asked.
type scripted struct {
	*kerneltest.Kernel
	creating  func()
	following func()
	reading   sync.Mutex // held: events that were read do not arrive
}

func (k *scripted) Create(spec tracer.SessionSpec) (tracer.SessionID, error) {
	k.creating()
	return k.Kernel.Create(spec)
}

func (k *scripted) Follow(from, id tracer.SessionID) (int, error) {
	k.following()
	return k.Kernel.Follow(from, id)
}

func (k *scripted) Read(ev *tracer.Event) error {
	err := k.Kernel.Read(ev)
	k.reading.Lock()
	defer k.reading.Unlock()
	return err
}

// stage is a session with the root 100, which has started 101 and 105; 101 has started 102.
type stage struct {
	*testing.T
	k    *scripted
	of   *Branches
	from tracer.SessionID
}

func newStage(t *testing.T) *stage {
	t.Helper()
	k := &scripted{Kernel: kerneltest.New(), creating: func() {}, following: func() {}}
	r := registry.New(registry.Options{
		Kernel: k, Enforcer: enforcer.New(k, enforcer.Options{Clock: k.Now}), Proc: procfs.FS(t.TempDir()), Log: zerolog.Nop(), Period: time.Hour,
		Clock: registry.Clock{Monotonic: k.Now, Boottime: func() uint64 { return uint64(k.Now()) }, Clock: func() time.Time { return time.Unix(0, 0) }},
	})
	ctx, cancel := context.WithCancel(context.Background())
	go r.Run(ctx)
	read := make(chan error, 1)
	go func() { read <- r.Ingest() }()
	t.Cleanup(func() {
		cancel()
		<-r.Done()
		r.CloseIngest()
		k.Close()
		<-read
	})
	s := &stage{t, k, New(r, k), 0}
	k.Add(100, 1, "lngtest-root")
	if err := r.Update(func(tx registry.Tx) {
		x, err := tx.Create(tracer.SessionSpec{Root: k.Proc(100).Identity, UID: 1000})
		if err != nil {
			t.Error(err)
			return
		}
		s.from = x.ID()
	}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct{ creator, pid uint32 }{{100, 101}, {101, 102}, {100, 105}} {
		k.Fork(p.creator, p.pid, "lngtest-member")
	}
	return s
}

// branch is that of a process of the session.
func (s *stage) branch(pid uint32) *Branch {
	return &Branch{Of: s.k.Proc(pid).Identity, From: s.from, UID: 1000}
}

// in checks the session of live processes.
func (s *stage) in(id tracer.SessionID, pids ...uint32) {
	s.Helper()
	for _, pid := range pids {
		if p := s.k.Proc(pid); p == nil || p.Session != id {
			s.Errorf("pid %d: %+v, want it in session %v", pid, p, id)
		}
	}
}

// pids are those of processes.
func pids(all []tracer.Process) (list []uint32) {
	for i := range all {
		list = append(list, all[i].PID)
	}
	return list
}
