//go:build linux

package daemon

import (
	"errors"

	"github.com/lineage-ebpf/lineage/tracer"
)

// census is what a walk over all processes says about sessions: whose root or owner was not
// met, and which members have a session that the kernel does not list. The first an event tells
// as well, but it may be lost, and below level 3 nobody else would look. The second never
// happens, unless something is broken.
type census struct {
	met     map[tracer.Identity]bool // roots and owners of sessions that are not over
	listed  map[tracer.SessionID]bool
	nobodys []tracer.Process
}

// begin takes the sessions that were listed before the walk.
func (c *census) begin(infos []tracer.SessionInfo) {
	c.met, c.listed, c.nobodys = make(map[tracer.Identity]bool), make(map[tracer.SessionID]bool, len(infos)), nil
	for _, info := range infos {
		c.listed[info.ID] = true
		if info.State < tracer.StateEmpty {
			c.met[info.Root] = false
			c.met[info.Owner] = info.Owner.IsZero()
		}
	}
}

// meet takes one process of the walk.
func (c *census) meet(t *tracer.Process) {
	if t.Dead {
		return
	}
	if _, asked := c.met[t.Identity]; asked {
		c.met[t.Identity] = true
	}
	if t.Session != 0 && !c.listed[t.Session] {
		c.nobodys = append(c.nobodys, *t)
	}
}

// died reports whether a root or owner is dead. A walk may not meet a process that is in an
// exec from a thread, and on some hosts it leaves PID 1 out, so the kernel's entry decides.
func (c *census) died(k kernel, id tracer.Identity) bool {
	return !c.met[id] && hasDied(k, id)
}

// hasDied reports whether a process that was entered is not any more.
func hasDied(k kernel, id tracer.Identity) bool {
	e, err := k.Lookup(id.PID)
	return errors.Is(err, tracer.ErrNotFound) || err == nil && e.Identity != id
}

// mourn notes the deaths of roots and owners that no event told, and has the sessions that they
// end looked at.
func (o *Registry) mourn(c *census) {
	for _, s := range o.sessions {
		if _, asked := c.met[s.info.Root]; !asked || s.closed {
			continue // not asked: it began after the walk
		}
		root := c.died(o.kernel, s.info.Root)
		if root && s.rootDied == 0 {
			s.rootDied = o.foundDead(&s.info)
			o.notify(s, func(h *Hooks) sessionHook { return h.RootDied })
		}
		if s.info.State == tracer.StateActive && (root && !s.info.KeepOnRootExit || c.died(o.kernel, s.info.Owner)) {
			o.enforcer.Watch(s.info.ID)
		}
	}
}

// foundDead is when a root died, at the latest, if no event told.
func (o *Registry) foundDead(info *tracer.SessionInfo) uint64 {
	if info.Cause == tracer.CauseRootExit {
		return info.EndedAt
	}
	return o.clock.boottime()
}

// broken reports whether a member has a session that is not there: one that was opened since
// the sessions were listed is, and one that is over now had lost that member before.
func (c *census) broken(k kernel) bool {
	for i := range c.nobodys {
		t := &c.nobodys[i]
		if _, err := k.Session(t.Session); !errors.Is(err, tracer.ErrNotFound) {
			continue
		}
		if e, err := k.Lookup(t.PID); err == nil && e.Identity == t.Identity && e.Session == t.Session {
			return true
		}
	}
	return false
}
