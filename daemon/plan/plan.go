//go:build linux

package plan

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// Kernel is what a planner asks the kernel.
type Kernel interface {
	Snapshot(id tracer.SessionID, each func(*tracer.Process) error) error
}

// Options are what a [Planner] depends on.
type Options struct {
	Registry *registry.Registry
	Find     *lookup.Finder
	Enforcer *enforcer.Enforcer
	Kernel   Kernel
	Holdings *holdings.Holdings
	Proc     procfs.FS
	Clock    registry.Clock
}

// Planner makes plans and remembers them. It may be used from any goroutine.
type Planner struct {
	o      Options
	recent plans
}

// New makes a planner.
func New(o Options) *Planner { return &Planner{o: o} }

// alive returns the members that a signal could reach.
func (p *Planner) alive(id tracer.SessionID) (all []tracer.Process, err error) {
	err = p.o.Kernel.Snapshot(id, func(m *tracer.Process) error {
		if !m.Dead && !m.Zombie {
			all = append(all, *m)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b tracer.Process) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
	})
	return all, err
}

// Subject is what a plan is about: a session, or the branch of one of its processes.
type Subject struct {
	Session tracer.SessionID
	Root    tracer.Identity // of the branch; zero: all of the session
	Call    string          // only what Root started in this tool call
}

func (s Subject) String() string {
	switch {
	case s.Root.IsZero():
		return s.Session.String()
	case s.Call != "":
		return fmt.Sprintf("what call %s of pid %d started", s.Call, s.Root.PID)
	}
	return fmt.Sprintf("pid %d and what it started", s.Root.PID)
}

// Check refuses an end that does not match its plan. It is called right before the
// first signal; what a member forks after that is ended too.
func (p *Planner) Check(token string, id tracer.SessionID) error {
	now, err := p.alive(id)
	if err != nil {
		return fmt.Errorf("read the session's members: %w", err)
	}
	return p.CheckMembers(token, Subject{Session: id}, now)
}

// CheckMembers is Check for processes that were already found.
func (p *Planner) CheckMembers(token string, of Subject, now []tracer.Process) (err error) {
	why := "it is unknown or has expired"
	if n := p.recent.find(token, of, p.o.Clock.Monotonic()); n != nil {
		var run map[tracer.Identity]command
		if !of.Root.IsZero() {
			run, err = registry.Ask(p.o.Registry, func(v registry.View) map[tracer.Identity]command { return commandsOf(v.Graph(), now) })
		}
		why = n.broken(now, func(id tracer.Identity) [16]byte { return run[id].sum() })
	}
	if err != nil || why == "" {
		return err
	}
	return api.NewError(api.CodeChanged, fmt.Sprintf("end %v: the plan no longer holds: %s; nothing was sent", of, why),
		"make a new one with --dry-run")
}

// command is what a process runs.
type command struct {
	exe  string
	argv []string
}

// sum is its hash, because a plan is remembered, and members choose how long a command line is.
func (c command) sum() (sum [16]byte) {
	if c.exe == "" {
		return sum // unknown
	}
	all := sha256.Sum256(fmt.Appendf(nil, "%q %q", c.exe, c.argv))
	return [16]byte(all[:])
}

// commandsOf finds what processes run: until its first exec, what the creator runs. A process that
// was just born may not be in the graph yet: it runs what its creator runs. The registry waits for
// this, so it takes no longer for each of many processes.
func commandsOf(g registry.Graph, now []tracer.Process) map[tracer.Identity]command {
	creators := make(map[tracer.Identity]tracer.Identity, len(now))
	for i := range now {
		creators[now[i].Identity] = now[i].Creator
	}
	run := make(map[tracer.Identity]command, len(now))
	for i := range now {
		at, known := now[i].Identity, true
		for step := 0; known && step < maxNewborn; step++ {
			if n, ok := g.Node(at); ok && n.Exe != "" {
				run[now[i].Identity] = command{n.Exe, n.Argv}
				break
			}
			at, known = creators[at]
		}
	}
	return run
}

// maxNewborn bounds the steps up to a process that the graph has.
const maxNewborn = 16

// Make adds to d what an end of the session would do. It sends nothing.
func (p *Planner) Make(ctx context.Context, id tracer.SessionID, c access.Caller, d *api.Plan) error {
	return p.MakeFor(ctx, Subject{Session: id}, p.alive, c, d)
}

// MakeFor adds to d what an end of the processes that find returns would do.
func (p *Planner) MakeFor(ctx context.Context, of Subject, find func(tracer.SessionID) ([]tracer.Process, error), c access.Caller, d *api.Plan) error {
	ctx, done, err := p.o.Find.Collect(ctx)
	if err != nil {
		return err
	}
	defer done()
	now, err := find(of.Session)
	if err != nil {
		return fmt.Errorf("read the session's members: %w", err)
	}
	if d.RefusedBy == "" {
		if err := p.o.Enforcer.CheckMembers(now, c.ID); err != nil {
			var refusal *enforcer.Refusal
			if !errors.As(err, &refusal) {
				return err
			}
			d.RefusedBy = refusal.Error()
		}
	}
	ids := make([]tracer.Identity, len(now))
	for i := range now {
		ids[i] = now[i].Identity
	}
	began := p.o.Clock.Boottime()
	held := p.o.Holdings.Reader().Of(ctx, ids)
	d.Unknown = held.Unknown
	traced, err := p.outsiders(ctx, now)
	if err != nil {
		d.Unknown = append(d.Unknown, err.Error())
	}
	n := &plan{of: of, members: make(map[tracer.Identity]tracer.EntryFlags), commands: make(map[[16]byte]bool), made: p.o.Clock.Monotonic(),
		by: owner{c.UID, c.Member}}
	for i := range now {
		n.members[now[i].Identity] = now[i].Flags & sparing
	}
	var run map[tracer.Identity]command
	err = c.RedactAfter(func() error {
		return p.o.Registry.Update(func(v registry.Tx) {
			d.Processes = v.Encoder().Plan(of.Session, now, c)
			if !of.Root.IsZero() {
				run = commandsOf(v.Graph(), now)
			}
			if x := v.Session(of.Session); x != nil && !x.Closed() && of.Root.IsZero() {
				p.o.Holdings.Note(v.View, x, held, began) // an immediate end has no time to look again
			}
		})
	})
	if err != nil {
		return err
	}
	for _, c := range run {
		n.commands[c.sum()] = true
	}
	var shown []*api.Process
	for i := range d.Processes {
		x := &d.Processes[i]
		x.Killable, x.Reason = p.killable(&now[i])
		x.Reason = tracing(x.Reason, p.tracedBy(now[i].PID), traced[now[i].PID])
		x.Ports, x.Locks = heldBy(held, now[i].Identity)
		shown = append(shown, &x.Process)
	}
	p.o.Find.Enrich(c, shown...)
	if d.RefusedBy == "" && len(now) > 0 {
		n.token = token(of, now, held)
		p.recent.add(n)
		d.Token = n.token
	}
	return nil
}

func heldBy(held resources.Held, id tracer.Identity) (ports []api.Port, locks []api.Lock) {
	for i := range held.Ports {
		if held.Ports[i].Holder == id {
			ports = append(ports, document.Port(&held.Ports[i]))
		}
	}
	for i := range held.Locks {
		if held.Locks[i].Holder == id {
			locks = append(locks, document.Lock(&held.Locks[i]))
		}
	}
	return ports, locks
}

// killable reports whether SIGKILL would end a member soon, and what else its death
// means. It comes from procfs, so it is only for display.
func (p *Planner) killable(t *tracer.Process) (bool, string) {
	if t.Flags&sparing != 0 {
		return false, "protected"
	}
	stat, err := p.o.Proc.Stat(t.PID)
	if err != nil {
		return true, ""
	}
	b, _ := p.o.Proc.Read(t.PID, "wchan", procfs.MaxFile)
	wchan := strings.TrimSpace(string(b))
	switch {
	case wchan == "__refrigerator":
		return false, "frozen: dies when it is thawed"
	case stat.State == 'D' && wchan != "kernel_clone": // that one waits for a vfork, and can be killed
		if wchan == "" || wchan == "0" {
			return false, "state D: dies when its wait in the kernel is over"
		}
		return false, fmt.Sprintf("state D (%s): dies when that wait is over", wchan)
	case t.NSPID == 1:
		return true, "PID 1 of a namespace: everything in the namespace dies with it"
	}
	return true, ""
}
