//go:build linux

package acts

import (
	"sync"
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
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
	of   *Acts
	from tracer.SessionID
}

func newStage(t *testing.T) *stage {
	t.Helper()
	k := &scripted{creating: func() {}, following: func() {}}
	f := registrytest.New(t, func(o *registry.Options) { k.Kernel, o.Kernel = o.Kernel.(*kerneltest.Kernel), k })
	f.Run()
	f.Ingest()
	s := &stage{t, k, New(Options{Ground: f.Ground()}), f.Session(100, 1000).ID()}
	for _, p := range []struct{ creator, pid uint32 }{{100, 101}, {101, 102}, {100, 105}} {
		k.Fork(p.creator, p.pid, "lngtest-member")
	}
	return s
}

func (s *stage) branch(pid uint32) *Branch {
	return &Branch{Subject: Subject{Root: s.k.Proc(pid).Identity, Session: s.from}, UID: 1000}
}

func (s *stage) in(id tracer.SessionID, pids ...uint32) {
	s.Helper()
	for _, pid := range pids {
		if p := s.k.Proc(pid); p == nil || p.Session != id {
			s.Errorf("pid %d: %+v, want it in session %v", pid, p, id)
		}
	}
}

func pids(all []tracer.Process) (list []uint32) {
	for i := range all {
		list = append(list, all[i].PID)
	}
	return list
}
