//go:build linux

package lookup

import (
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/redact"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	perLook = 512 // processes that are read after one look
	// tries is how often a container's name is asked for: its runtime may not have written everything yet.
	tries = 3
)

// ContainerReader tells the graph what no event reports of the members of sessions: their containers, and the command lines of those that
// were adopted, or are older than the daemon. A process has its creator's container until a look meets it, and is read once, and
// again when it has executed another program: it may have been put into a container before that. A command line is for display:
// procfs shows what the process wants.
type ContainerReader struct {
	registry.Ground
	finder *ContainerFinder
	asked  map[lineage.ID]int // of the registry's goroutine; the tries that are left
}

// NewContainerReader makes a reader; attach its hooks.
func NewContainerReader(g registry.Ground, f *ContainerFinder) *ContainerReader {
	return &ContainerReader{Ground: g, finder: f, asked: make(map[lineage.ID]int)}
}

// Hooks follow the looks and the execs.
func (r *ContainerReader) Hooks() *registry.Hooks {
	return &registry.Hooks{
		Sampled: r.sampled,
		Execed:  func(_ registry.View, _ *registry.Session, ev *tracer.Event) { delete(r.asked, ev.Process) },
	}
}

type member struct {
	lineage.Seen
	in  *lineage.Container
	ran bool // its command line is known
}

func (r *ContainerReader) sampled(v registry.View, l *registry.Look) (after func()) {
	asked := make(map[lineage.ID]int)
	var due []member
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
			due = append(due, member{*p, in, v.Graph().HasCommand(p.ID)})
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

func (r *ContainerReader) read(due []member) {
	var changes []func(registry.Tx)
	for _, p := range due {
		in := r.finder.Of(p.ID.PID, p.in)
		var argv []byte
		var truncated bool
		if !p.ran {
			argv, truncated = r.Proc.Cmdline(p.ID.PID)
			redact.Token(argv)
		}
		exe := r.Proc.Link(p.ID.PID, "exe")
		if now, err := r.Kernel.Identify(p.ID.PID); err != nil || now != p.ID {
			continue
		}
		if in != p.in && (in == nil || p.in == nil || *in != *p.in) {
			changes = append(changes, func(t registry.Tx) { t.Contain(p.ID, in) })
		}
		if len(argv) > 0 { // as run since the process was entered: an exec after that would have been reported
			ran := &lineage.Event{
				Type: lineage.Exec, Time: max(p.Since, p.ID.Start), ID: p.ID, Looks: p.Looks,
				Exe: []byte(exe), Argv: argv, ArgvTruncated: truncated,
			}
			changes = append(changes, func(t registry.Tx) { t.Ran(ran) })
		}
	}
	if len(changes) == 0 {
		return
	}
	r.Registry.Do(func(t registry.Tx) {
		for _, change := range changes {
			change(t)
		}
	})
}
