//go:build linux

package registry

import (
	"errors"
	"slices"

	"github.com/lineage-ebpf/lineage/tracer"
)

// census is what a walk over all processes says about sessions: which roots and owners it did not meet, whose event may
// be lost, and which members have a session that the kernel does not list, which never happens unless something is broken.
type census struct {
	met     map[tracer.Identity]bool // roots and owners of sessions that are not over
	listed  map[tracer.SessionID]bool
	nobodys []tracer.Process
}

// begin takes the sessions that were listed before the walk.
func (c *census) begin(infos []tracer.SessionInfo) {
	c.met, c.listed, c.nobodys = make(map[tracer.Identity]bool), make(map[tracer.SessionID]bool,
		len(infos)), nil
	for _, info := range infos {
		c.listed[info.ID] = true
		if info.State < tracer.StateEmpty {
			c.met[info.Root] = false
			c.met[info.Owner] = info.Owner.IsZero()
		}
	}
}

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
func (c *census) died(k Kernel, id tracer.Identity) bool {
	return !c.met[id] && hasDied(k, id)
}

// hasDied reports whether the kernel no longer has the entry of a process that was entered.
func hasDied(k Kernel, id tracer.Identity) bool {
	e, err := k.Lookup(id.PID)
	return errors.Is(err, tracer.ErrNotFound) || err == nil && e.Identity != id
}

// broken reports whether a member has a session that does not exist. The kernel is asked again: a
// session may have been opened since they were listed, and one that ended lost its members before.
func (c *census) broken(k Kernel) bool {
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

// A list is a walk over 16,384 slots, so a few held sessions are read one by one. Events report
// new sessions; a lost event is a cause, and each listEvery-th look lists all.
const (
	fewSessions = 256
	listEvery   = 32
)

// sessions gives the kernel's records of the sessions that a look is about.
func (p *sampler) sessions(cause Cause) ([]tracer.SessionInfo, error) {
	r := p.registry
	var ids []tracer.SessionID
	all := cause != CauseNone || p.asks%listEvery == 0
	err := r.Read(func(View) {
		all = all || len(p.unreleased) > 0
		for id, s := range r.sessions {
			if !s.closed {
				ids = append(ids, id)
			}
		}
	})
	p.asks++
	if err != nil || all || len(ids) > fewSessions {
		return r.o.Kernel.Sessions()
	}
	slices.Sort(ids)
	infos := make([]tracer.SessionInfo, 0, len(ids))
	for _, id := range ids {
		switch info, err := r.o.Kernel.Session(id); {
		case err == nil:
			infos = append(infos, info)
		case !errors.Is(err, tracer.ErrNotFound):
			return nil, err
		}
	}
	return infos, nil
}
