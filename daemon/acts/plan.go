//go:build linux

package acts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
)

// alive returns the members that a signal could reach.
func (a *Acts) alive(id tracer.SessionID) (all []tracer.Process, err error) {
	err = a.o.Kernel.Snapshot(id, func(m *tracer.Process) error {
		if !m.Dead && !m.Zombie {
			all = append(all, *m)
		}
		return nil
	})
	oldestFirst(all)
	return all, err
}

func oldestFirst(all []tracer.Process) {
	slices.SortFunc(all, func(a, b tracer.Process) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
	})
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

// PlanSession shows what an end of the session that word names would do. It sends nothing.
func (a *Acts) PlanSession(ctx context.Context, word string, c access.Caller) (*api.Plan, error) {
	d := &api.Plan{Head: api.NewHead("plan"), Processes: []api.PlanProcess{}}
	t, over := &Target{}, false
	err := a.o.Find.Session(word, c, access.Read, func(v registry.View, x *registry.Session) {
		over, t.Sessions = x.Closed(), []tracer.SessionInfo{x.Info()}
		d.Session, d.Name, d.State = x.ID().String(), x.Info().Name, x.State()
		if end := access.Decide(c, access.End, v.Scope(x)); !end.Allow {
			d.RefusedBy = "not permitted: " + end.Why
		}
	})
	if err != nil || over {
		return d, err
	}
	return d, a.plan(ctx, t, c, d)
}

func (a *Acts) plan(ctx context.Context, t *Target, c access.Caller, d *api.Plan) error {
	ctx, done, err := a.o.Find.Collect(ctx)
	if err != nil {
		return err
	}
	defer done()
	now, err := a.members(t)
	if err != nil {
		return err
	}
	if d.RefusedBy == "" {
		if err := a.o.Enforcer.CheckMembers(now, c.ID); err != nil {
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
	began := a.o.Clock.Boottime()
	held := a.o.Holdings.Reader().Of(ctx, ids)
	d.Unknown = held.Unknown
	of := t.subject()
	n := &plan{of: of, members: make(map[tracer.Identity]tracer.EntryFlags),
		commands: make(map[[16]byte]bool), made: a.o.Clock.Monotonic(),
		by: owner{c.UID, c.Member}}
	for i := range now {
		n.members[now[i].Identity] = now[i].Flags & sparing
	}
	var run map[tracer.Identity]command
	err = c.RedactAfter(func() error {
		return a.o.Registry.Update(func(v registry.Tx) {
			d.Processes = v.Encoder().Plan(of.Session, now, c)
			if !of.Root.IsZero() {
				run = commandsOf(v.Graph(), now)
			}
			x := v.Session(of.Session)
			if x != nil {
				d.Name, d.State = x.Info().Name, x.State()
			}
			if x != nil && !x.Closed() && of.Root.IsZero() {
				a.o.Holdings.Note(v.View, x, held, began) // an immediate end has no time to look again
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
		x.Reason = a.o.Enforcer.Stuck(&now[i])
		if x.Killable = x.Reason == ""; x.Killable && now[i].NSPID == 1 {
			x.Reason = "PID 1 of a namespace: everything in the namespace dies with it"
		}
		x.Ports, x.Locks = heldBy(held, now[i].Identity)
		shown = append(shown, &x.Process)
	}
	a.o.Find.Enrich(c, shown...)
	if d.RefusedBy == "" && len(now) > 0 {
		n.token = token(of, now, held)
		a.plans.add(n)
		d.Token = n.token
	}
	return nil
}

func heldBy(held holdings.Held, id tracer.Identity) (ports []api.Port, locks []api.Lock) {
	for i := range held.Ports {
		if held.Ports[i].Holder == id {
			ports = append(ports, held.Ports[i].Document())
		}
	}
	for i := range held.Locks {
		if held.Locks[i].Holder == id {
			locks = append(locks, held.Locks[i].Document())
		}
	}
	return ports, locks
}
