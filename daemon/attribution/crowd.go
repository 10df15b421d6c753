//go:build linux

package attribution

import (
	"slices"
	"sync/atomic"

	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

const (
	// maxCrowd bounds how many processes wait to be looked at.
	maxCrowd = 8192
	// A process that is new, or runs another program, is looked at this many times in a
	// row: its own exec may still be to come. Then seldom: an exec need not change the
	// comm.
	looksInRow = 3
	looksApart = 30
)

// crowd are the host's processes that were born since a session began, found by the sampler: the kernel sends no events
// of outsiders. Members show by which variables others know them, outsiders may work for a session.
type crowd struct {
	horizon uint64 // boottime ns: older processes do not count; 0: none counts
	seen    map[tracer.Identity]glance
	anew    atomic.Bool // look at all of them some times in a row again
	walk    uint32
	waiting []tracer.Process
}

// glance is what is remembered of one process.
type glance struct {
	comm  tracer.Comm
	looks uint32
	walk  uint32 // in which it was last met
}

func (c *crowd) meet(t *tracer.Process) {
	if c.anew.CompareAndSwap(true, false) {
		c.seen = nil
	}
	if c.horizon == 0 || t.Start < c.horizon || t.Dead || t.Kernel || t.PID <= 1 ||
		t.Flags&tracer.FlagProtected != 0 {
		return
	}
	if c.seen == nil {
		c.seen = make(map[tracer.Identity]glance)
	}
	g := c.seen[t.Identity]
	if g.comm != t.Comm {
		g = glance{comm: t.Comm}
	}
	g.walk = c.walk
	if (g.looks < looksInRow || g.looks%looksApart == 0) && len(c.waiting) < maxCrowd {
		c.waiting = append(c.waiting, *t)
		g.looks++
	} else if g.looks >= looksInRow {
		g.looks++
	}
	c.seen[t.Identity] = g
}

// walked ends a walk: processes that it did not meet are gone.
func (c *crowd) walked() {
	for id, g := range c.seen {
		if g.walk != c.walk {
			delete(c.seen, id)
		}
	}
	c.walk++
}

// hand sends the waiting processes to Run, unless that is still busy with the last
// ones.
func (c *crowd) hand(to chan<- []tracer.Process) {
	if system.Offer(to, c.waiting) {
		c.waiting = nil
	}
}

// horizon is the time since which processes may work for a session, 0: there is no
// session that they could work for.
func (a *Attribution) horizon(v registry.View) uint64 {
	first := uint64(0)
	for s := range v.Sessions() {
		its := a.of(s.ID())
		if (!s.Closed() || its.awaits()) && !s.Info().Kept && its.For == 0 && (first == 0 ||
			s.Info().Root.Start < first) {
			first = s.Info().Root.Start
		}
	}
	return first
}

// awaits reports whether a broker may still begin what an ended session asked for.
func (s *brokered) awaits() bool {
	for _, e := range s.Requests {
		if e.Kind.Later && !e.Failed && s.token != [32]byte{} {
			return true
		}
	}
	return false
}

// used reports whether a live session may still use a shared server: each of its uid, as the kernel does not report
// connections to it. One that is ended too late is a leak that is shown; too early, a user's broken build.
func (a *Attribution) used(v registry.View, x *registry.Session) bool {
	for s := range v.Sessions() {
		if s != x && !s.Closed() && s.Info().State == tracer.StateActive &&
			s.Info().UID == x.Info().UID &&
			!s.Info().Kept && a.of(s.ID()).For == 0 {
			return true
		}
	}
	return false
}

// What a member shows, such as a token, counts only for processes that a member could have ended itself: those of a uid
// that a member has or had. The uid of who opened the session is not enough: root opens sessions for others.

// maxUIDs bounds how many uids of members a session remembers.
const maxUIDs = 16

// began notes the uid of the root when it executes its first program: before, it may be lineage's own, as root. Of one that was put
// into a container that is the command. Of a command line that was cut nothing is certain.
func (s *brokered) began(v registry.View, x *registry.Session, ev *tracer.Event) {
	if ev.Process != x.Info().Root || s.Began {
		return
	}
	s.Began = true
	s.remember(ev.UID)
	if s.command.Began = x.Info().Joined; s.command.Began && !ev.ArgvTruncated {
		s.command.Command = lookup.CommandOf(string(ev.Filename), ev.Args())
	}
	v.Save(x)
}

func (s *brokered) remember(uid uint32) {
	if len(s.UIDs) < maxUIDs && !slices.Contains(s.UIDs, uid) {
		s.UIDs = append(s.UIDs, uid)
	}
}

// had reports whether a member of the session has or had a uid. A member that only runs a set-uid program does not
// have its uid.
func had(a *Attribution, c *claimant, uid uint32) bool {
	if slices.Contains(c.UIDs, uid) {
		return true
	}
	found := false
	shim := tracer.Identity{}
	if !c.Began && c.token != [32]byte{} {
		shim = c.info.Root
	}
	_ = a.o.Kernel.Snapshot(c.info.ID, func(p *tracer.Process) error {
		found = found || !p.Dead && p.UID == uid && p.Identity != shim && wholly(a, p, uid)
		return nil
	})
	if found {
		c.UIDs = append(c.UIDs, uid)
		a.o.Registry.Do(func(t registry.Tx) {
			if x := t.Session(c.info.ID); x != nil {
				a.of(x.ID()).remember(uid)
				t.Save(x)
			}
		})
	}
	return found
}

// wholly reports whether all uids of a member are this one.
func wholly(a *Attribution, p *tracer.Process, uid uint32) bool {
	st, err := a.o.Proc.Status(p.PID)
	if err != nil || slices.ContainsFunc(st.UIDs, func(one uint32) bool { return one != uid }) {
		return false
	}
	e, err := a.o.Kernel.Lookup(p.PID)
	return err == nil && e.Identity == p.Identity
}

// inTerminal reports whether a candidate was started in a terminal: by a shell in which somebody works, or by what runs
// there. A token may be there by accident, from a file with environment variables. Brokers have no terminal, and a process
// to which they give one leads its POSIX session.
func inTerminal(proc procfs.FS, x *candidate, its *procfs.Stat) bool {
	if its.TTY != 0 && uint32(its.SID) != x.PID {
		return true
	}
	if x.Parent.PID <= 1 {
		return false
	}
	stat, err := proc.Stat(x.Parent.PID)
	return err == nil && stat.TTY != 0
}
