//go:build linux

package registry_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// A member that the kernel side has signalled is in the receipt, although nothing has reported yet
// that its session ends; one that exits on its own before the end is not.
func TestSignalledBeforeEnd(t *testing.T) {
	f := registrytest.New(t)
	f.Run()
	s := f.Session(100, 1000)
	f.K.Fork(100, 101, "lngtest-a")
	f.K.Fork(100, 102, "lngtest-b")
	exit := func(pid uint32, flags tracer.EntryFlags) tracer.Event {
		return tracer.Event{Type: tracer.EventExit, Process: f.K.Proc(pid).Identity, Session: s.ID(), Flags: flags, Time: 1 << 40}
	}
	f.Update(func(tx registry.Tx) {
		tx.Apply([]tracer.Event{exit(101, tracer.FlagKilled), exit(102, 0)})
		r := tx.Report(s, access.Caller{})
		if len(r.Processes) != 1 || r.Processes[0].PID != 101 || r.Processes[0].Outcome != api.OutcomeKill || r.Killed != 1 {
			t.Errorf("%+v", r)
		}
	})
}
