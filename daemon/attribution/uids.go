//go:build linux

package attribution

import (
	"slices"

	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

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
