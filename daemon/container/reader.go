//go:build linux

package container

import (
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	perLook = 512 // processes that are read after one look
	// tries is how often a container's name is asked for: its runtime may not have written everything yet.
	tries = 3
)

// Kernel is what a reader asks the kernel.
type Kernel interface {
	Identify(pid uint32) (tracer.Identity, error)
}

// Reader tells the graph in which containers the members of sessions are. A process has its creator's container until a
// look meets it, and is read once, and again when it has executed another program: it may have been put into a container
// before that.
type Reader struct {
	registry *registry.Registry
	kernel   Kernel
	finder   *Finder
	asked    map[lineage.ID]int // of the registry's goroutine; the tries that are left
}

// NewReader makes a reader; attach its hooks.
func NewReader(r *registry.Registry, k Kernel, f *Finder) *Reader {
	return &Reader{registry: r, kernel: k, finder: f, asked: make(map[lineage.ID]int)}
}

// Hooks follow the looks and the execs.
func (r *Reader) Hooks() *registry.Hooks {
	return &registry.Hooks{
		Sampled: r.sampled,
		Execed:  func(_ registry.View, _ *registry.Session, ev *tracer.Event) { delete(r.asked, ev.Process) },
	}
}

// place is a member, and the container in which the graph has it.
type place struct {
	id lineage.ID
	in *lineage.Container
}

// sampled finds the members that are to be read after the look.
func (r *Reader) sampled(v registry.View, l *registry.Look) (after func()) {
	asked := make(map[lineage.ID]int)
	var due []place
	for i := range l.Seen {
		p := &l.Seen[i]
		if p.Session == 0 || p.Dead || p.Zombie {
			continue
		}
		left, known := r.asked[p.ID]
		if !known {
			left = tries
		}
		in := v.Graph().Container(p.ID)
		if unnamed := in != nil && in.Name == ""; (!known || unnamed && left > 0) && len(due) < perLook {
			due = append(due, place{p.ID, in})
			left, known = left-1, true
		}
		if known {
			asked[p.ID] = left
		}
	}
	if r.asked = asked; len(due) == 0 {
		return nil
	}
	return func() { r.read(due) }
}

func (r *Reader) read(due []place) {
	var moved []place
	for _, p := range due {
		c := r.finder.Of(p.id.PID, p.in)
		if now, err := r.kernel.Identify(p.id.PID); err == nil && now == p.id && c != p.in && (c == nil || p.in == nil || *c != *p.in) {
			moved = append(moved, place{p.id, c})
		}
	}
	if len(moved) == 0 {
		return
	}
	r.registry.Do(func(t registry.Tx) {
		for _, p := range moved {
			t.Contain(p.id, p.in)
		}
	})
}
