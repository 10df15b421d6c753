//go:build linux

package attribution

import (
	"cmp"
	"errors"
	"slices"

	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/tracer"
)

// What a process had started, and lost, before its session began has no living ancestor
// there. It may still be in a POSIX session, a process group or a cgroup that otherwise
// has only members: then it is likely theirs.

// groupKey names a POSIX session, a process group or a cgroup.
type groupKey struct {
	by     tracer.Source
	number uint64
}

// group is the processes in one of these.
type group struct {
	session tracer.SessionID // of its members
	mixed   bool             // … which are of several sessions
	eldest  uint64           // start of the eldest outsider, 0: there is none
}

// groups are those of all processes.
type groups struct {
	all   map[groupKey]group
	roots map[tracer.SessionID][]groupKey // the groups of a session's root, while it lives
}

// groupsOf are the groups that a process is in; its cgroup unless that is the root of
// version 2, which holds every process that was not put elsewhere.
func groupsOf(t *tracer.Process) []groupKey {
	keys := []groupKey{{tracer.SourceSID, uint64(t.SID)}, {tracer.SourcePGRP, uint64(t.PGID)}}
	if t.Cgroup > 1 {
		keys = append(keys, groupKey{tracer.SourceCgroup, t.Cgroup})
	}
	return keys
}

// meetGroups walks over all processes. Members of sessions that are not claimants, such
// as companion sessions, do not count.
func (a *Attribution) meetGroups(all []claimant) *groups {
	roots := make(map[tracer.SessionID]tracer.Identity, len(all))
	for i := range all {
		roots[all[i].info.ID] = all[i].info.Root
	}
	g := &groups{all: make(map[groupKey]group), roots: make(map[tracer.SessionID][]groupKey)}
	err := a.o.Kernel.Snapshot(0, func(t *tracer.Process) error {
		root, claims := roots[t.Session]
		if t.Dead || t.Kernel || t.Session != 0 && !claims {
			return nil
		}
		keys := groupsOf(t)
		if claims && t.Identity == root {
			g.roots[t.Session] = keys
		}
		for _, k := range keys {
			x := g.all[k]
			switch {
			case t.Session == 0 && (x.eldest == 0 || t.Start < x.eldest):
				x.eldest = t.Start
			case t.Session != 0:
				x.mixed = x.mixed || x.session != 0 && x.session != t.Session
				x.session = cmp.Or(x.session, t.Session)
			}
			g.all[k] = x
		}
		return nil
	})
	if err != nil {
		a.o.Log.Error().Err(err).Msg("process groups not read")
		return new(groups)
	}
	return g
}

// byGroup accepts a process in the POSIX session or process group that a member leads; in one of members whose leader
// is dead; and in the cgroup of a session's root. A group that the root was already in, or that has an outsider older
// than the root, belongs to the surroundings.
func (a *Attribution) byGroup(x *candidate, all []claimant, allowed func(tracer.Source) bool) *proof {
	for _, k := range groupsOf(&x.Process) {
		if !allowed(k.by) || k.by != tracer.SourceCgroup && k.number <= 1 {
			continue
		}
		var in group
		lives := k.by != tracer.SourceCgroup && !a.noLeader(uint32(k.number))
		if lives {
			if leader, err := a.o.Kernel.Lookup(uint32(k.number)); err == nil &&
				leader.PID != x.PID && leader.Start <= x.Start {
				in.session = leader.Session
			}
		} else {
			if a.groups == nil {
				a.groups = a.meetGroups(all)
			}
			in = a.groups.all[k]
		}
		i := slices.IndexFunc(all, func(c claimant) bool { return c.info.ID == in.session })
		if i < 0 || in.mixed || all[i].over {
			continue
		}
		c := &all[i]
		if k.by == tracer.SourceCgroup && rules.InContainer(c.info) {
			continue // its container's: the rules enter what is put there
		}
		if !lives {
			rooted := a.groups.roots[in.session]
			if len(rooted) == 0 || slices.Contains(rooted, k) != (k.by == tracer.SourceCgroup) ||
				in.eldest != 0 && in.eldest < c.info.Root.Start {
				continue
			}
		}
		if had(a, c, x.UID) {
			return &proof{claimant: c, source: k.by}
		}
	}
	return nil
}

// noLeader reports that no process has a PID, which therefore stays the number of a
// group while the group has processes.
func (a *Attribution) noLeader(pid uint32) bool {
	_, err := a.o.Kernel.Identify(pid)
	return errors.Is(err, tracer.ErrNotFound)
}
