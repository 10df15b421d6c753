//go:build linux

// Package commands reads the command lines that no exec event reported: of processes that were
// adopted, or are older than the daemon.
package commands

import (
	"github.com/lineage-ebpf/lineage/daemon/broker"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// perLook bounds the processes of one look that are read from procfs.
const perLook = 512

// Kernel is what a reader asks the kernel.
type Kernel interface {
	Identify(pid uint32) (tracer.Identity, error)
}

// Reader reads the command line of a process once, after the first look that meets it without
// one. They are for display: procfs shows what the process wants.
type Reader struct {
	registry *registry.Registry
	kernel   Kernel
	proc     procfs.FS
	asked    map[lineage.ID]bool // read, and still unknown; of the registry's goroutine
}

// New makes a reader; attach its hooks.
func New(r *registry.Registry, k Kernel, proc procfs.FS) *Reader {
	return &Reader{registry: r, kernel: k, proc: proc}
}

// Hooks follow the looks.
func (r *Reader) Hooks() *registry.Hooks { return &registry.Hooks{Sampled: r.sampled} }

// sampled finds the members without a command line, which are read after that.
func (r *Reader) sampled(v registry.View, l *registry.Look) (after func()) {
	asked := make(map[lineage.ID]bool)
	var members []*lineage.Seen
	for i := range l.Seen {
		p := &l.Seen[i]
		switch {
		case p.Session == 0 || p.Dead || p.Zombie || v.Graph().HasCommand(p.ID):
		case r.asked[p.ID]:
			asked[p.ID] = true
		case len(members) < perLook:
			asked[p.ID] = true
			members = append(members, p)
		}
	}
	if r.asked = asked; len(members) == 0 {
		return nil
	}
	return func() { r.read(members) }
}

// read adds what procfs shows to the graph, as run since the process was entered: an exec after that
// would have been reported.
func (r *Reader) read(members []*lineage.Seen) {
	var ran []lineage.Event
	for _, p := range members {
		argv, truncated := r.proc.Cmdline(p.ID.PID)
		broker.Hush(argv)
		exe := r.proc.Link(p.ID.PID, "exe")
		if now, err := r.kernel.Identify(p.ID.PID); err != nil || now != p.ID || len(argv) == 0 {
			continue
		}
		ran = append(ran, lineage.Event{
			Type: lineage.Exec, Time: max(p.Since, p.ID.Start), ID: p.ID, Comm: p.Comm, UID: p.UID, Cgroup: p.Cgroup,
			Exe: []byte(exe), Argv: argv, ArgvTruncated: truncated,
		})
	}
	r.registry.Do(func(t registry.Tx) {
		for i := range ran {
			t.Ran(&ran[i])
		}
	})
}
