//go:build linux

package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
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

// Options are what a [Planner] stands on.
type Options struct {
	Registry *registry.Registry
	Find     *lookup.Finder
	Enforcer *enforcer.Enforcer
	Kernel   Kernel
	Holds    *resources.Reader
	Proc     procfs.FS
	Clock    registry.Clock
}

// Planner makes plans and remembers what they said. It may be used from any goroutine.
type Planner struct {
	o    Options
	said plans
}

// New makes a planner.
func New(o Options) *Planner { return &Planner{o: o} }

// alive gives the members that a signal could reach.
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

// Check refuses an end that is not the one that was planned. It is asked
// right before the first signal; what a member forks after that goes with it.
func (p *Planner) Check(token string, id tracer.SessionID) error {
	changed := func(why string) error {
		return api.NewError(api.CodeChanged, fmt.Sprintf("end %v: the plan no longer holds: %s; nothing was sent", id, why),
			"make a new one with --dry-run")
	}
	n := p.said.find(token, id, p.o.Clock.Monotonic())
	if n == nil {
		return changed("it is unknown or has expired")
	}
	now, err := p.alive(id)
	if err != nil {
		return fmt.Errorf("read the session's members: %w", err)
	}
	if why := n.broken(now); why != "" {
		return changed(why)
	}
	return nil
}

// Make adds to d what an end of the session would do. It sends nothing.
func (p *Planner) Make(ctx context.Context, id tracer.SessionID, c access.Caller, d *api.Plan) error {
	ctx, done, err := p.o.Find.Collect(ctx)
	if err != nil {
		return err
	}
	defer done()
	now, err := p.alive(id)
	if err != nil {
		return fmt.Errorf("read the session's members: %w", err)
	}
	if d.RefusedBy == "" {
		if err := p.o.Enforcer.CheckEnd(id, c.ID); err != nil {
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
	held := p.o.Holds.Of(ctx, ids)
	d.Unknown = held.Unknown
	traced, err := p.outsiders(ctx, now)
	if err != nil {
		d.Unknown = append(d.Unknown, err.Error())
	}
	err = p.o.Registry.Update(func(v registry.Tx) {
		d.Processes = v.Encoder().Plan(id, now, c)
		if x := v.Session(id); x != nil && !x.Closed() {
			v.Holds(x, held, began) // an end at once has no time to look again
		}
	})
	if err != nil {
		return err
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
		n := &plan{session: id, members: make(map[tracer.Identity]tracer.EntryFlags), made: p.o.Clock.Monotonic()}
		for i := range now {
			n.members[now[i].Identity] = now[i].Flags & sparing
		}
		n.token = token(id, now, held)
		p.said.add(n)
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

// killable says whether SIGKILL would end a member soon, and what else its
// death means. procfs tells, so it is for people.
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
	case stat.State == 'D' && wchan != "kernel_clone": // which waits for a vfork, and can be killed
		if wchan == "" || wchan == "0" {
			return false, "state D: dies when its wait in the kernel is over"
		}
		return false, fmt.Sprintf("state D (%s): dies when that wait is over", wchan)
	case t.NSPID == 1:
		return true, "PID 1 of a namespace: everything in the namespace dies with it"
	}
	return true, ""
}
