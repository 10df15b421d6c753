//go:build linux

package attribution

import (
	"cmp"
	"errors"
	"slices"

	"github.com/lineage-ebpf/lineage/tracer"
)

// What a process had started, and lost, before its session began has no living
// ancestor there. It may still be in a POSIX session, a process group or a
// cgroup that only members are in besides: then it likely is one of theirs.

// groupKey names a POSIX session, a process group or a cgroup.
type groupKey struct {
	by     tracer.Source
	number uint64
}

// group is who is in one.
type group struct {
	session tracer.SessionID // of its members
	mixed   bool             // … which are of several
	eldest  uint64           // start of the eldest that is no member, 0: there is none
}

// groups are those of all processes.
type groups struct {
	all   map[groupKey]group
	roots map[tracer.SessionID][]groupKey // that a session's root is in, while it lives
}

// groupsOf are the groups that a process is in; its cgroup only if that is none
// of version 2's root, where everybody is whom nobody put elsewhere.
func groupsOf(t *tracer.Process) []groupKey {
	keys := []groupKey{{tracer.SourceSID, uint64(t.SID)}, {tracer.SourcePGRP, uint64(t.PGID)}}
	if t.Cgroup > 1 {
		keys = append(keys, groupKey{tracer.SourceCgroup, t.Cgroup})
	}
	return keys
}

// meetGroups walks over all processes. Members of sessions that nobody works
// for, such as those beside others, say nothing.
func (b *Attribution) meetGroups(all []claimant) (*groups, error) {
	roots := make(map[tracer.SessionID]tracer.Identity, len(all))
	for i := range all {
		roots[all[i].info.ID] = all[i].info.Root
	}
	g := &groups{all: make(map[groupKey]group), roots: make(map[tracer.SessionID][]groupKey)}
	err := b.kernel.Snapshot(0, func(t *tracer.Process) error {
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
	return g, err
}

// byGroup takes what is in a group of members whose leader is dead, or in the
// cgroup of a session's root. A group that the root came into, or that holds a
// stranger who was there before the root, is that of the surroundings.
func (b *Attribution) byGroup(x *candidate, all []claimant, allowed func(tracer.Source) bool) *proof {
	for _, k := range groupsOf(&x.Process) {
		if !allowed(k.by) || k.by != tracer.SourceCgroup && (k.number <= 1 || !b.noLeader(uint32(k.number))) {
			continue
		}
		if b.groups == nil {
			var err error
			if b.groups, err = b.meetGroups(all); err != nil {
				b.log.Error().Err(err).Msg("process groups not read")
				return nil
			}
		}
		in := b.groups.all[k]
		i := slices.IndexFunc(all, func(c claimant) bool { return c.info.ID == in.session })
		if i < 0 || in.mixed {
			continue
		}
		c := &all[i]
		rooted := b.groups.roots[in.session]
		if len(rooted) == 0 || slices.Contains(rooted, k) != (k.by == tracer.SourceCgroup) ||
			in.eldest != 0 && in.eldest < c.info.Root.Start || c.over || !slices.Contains(c.uids, x.UID) {
			continue
		}
		return &proof{claimant: c, source: k.by}
	}
	return nil
}

// noLeader reports that nobody has a PID, which therefore stays the number of a
// group for as long as somebody is in that.
func (b *Attribution) noLeader(pid uint32) bool {
	_, err := b.kernel.Identify(pid)
	return errors.Is(err, tracer.ErrNotFound)
}
