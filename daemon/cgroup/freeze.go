//go:build linux

package cgroup

import (
	"fmt"
	"slices"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Freeze stops what is in the cgroup of a session, or lets it run again: until then SIGCONT runs none of it. Nothing is
// frozen while a process is in it that is not a member, or if the session has no cgroup.
func (g *Groups) Freeze(id tracer.SessionID, frozen bool) error {
	path := ""
	family, err := registry.Ask(g.o.Registry, func(v registry.View) []tracer.SessionID {
		path = g.pathOf(id)
		return v.Family(id)
	})
	if err != nil || path == "" {
		return err
	}
	if !frozen {
		return g.maker.Freeze(path, false)
	}
	strangers := inside(g.mount, path)
	if err := g.o.Kernel.Snapshot(0, func(p *tracer.Process) error {
		if slices.Contains(family, p.Session) {
			delete(strangers, int(p.PID))
		}
		return nil
	}); err != nil {
		return err
	}
	for pid := range strangers {
		return fmt.Errorf("pid %d is not a member, so the session's cgroup is not frozen: SIGCONT may run members", pid)
	}
	return g.maker.Freeze(path, true)
}
