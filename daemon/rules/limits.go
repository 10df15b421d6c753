//go:build linux

package rules

import (
	"cmp"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

// limitsOf are the limits that the policy has for a session, held by a cgroup; nil: none. A rule for containers has none: they
// have cgroups of their own.
func (r *Policy) limitsOf(info *tracer.SessionInfo) *policy.Limits {
	p := r.Policy()
	switch a := p.Opener(info.Rule, info.Name); {
	case !r.Enforced(info.UID), info.Rule == policy.ContainerRule:
		return nil
	case info.Rule == policy.AgentRule && a != nil:
		return new(p.Terms(a).Limits)
	}
	return &p.Defaults.Limits
}

// Returns reports whether members of a session that leave its cgroup are moved back.
func (r *Policy) Returns(info tracer.SessionInfo) bool {
	l := r.limitsOf(&info)
	return l != nil && l.Leave == "return"
}

// Limited adds the limits of the defaults to those that a caller asks for, if any; nil: none.
func (r *Policy) Limited(l *api.Limits, uid uint32) *api.Limits {
	given := apiLimits(r.limitsOf(&tracer.SessionInfo{UID: uid}))
	if l == nil || given == nil {
		return cmp.Or(l, given)
	}
	l.MemoryBytes = cmp.Or(l.MemoryBytes, given.MemoryBytes)
	l.MemoryHighBytes = cmp.Or(l.MemoryHighBytes, given.MemoryHighBytes)
	l.CPUs, l.Tasks, l.IOWeight = cmp.Or(l.CPUs, given.CPUs), cmp.Or(l.Tasks, given.Tasks), cmp.Or(l.IOWeight, given.IOWeight)
	return l
}

// apiLimits is nil without a limit. A host that cannot set one must not refuse every session.
func apiLimits(l *policy.Limits) *api.Limits {
	if l == nil {
		return nil
	}
	a := &api.Limits{MemoryBytes: int64(l.Memory), MemoryHighBytes: int64(l.MemoryHigh),
		CPUs: float64(l.CPUs) / 1000, Tasks: l.MaxTasks, IOWeight: l.IOWeight, IfPossible: true}
	if !a.Any() {
		return nil
	}
	return a
}

// limit gives the session of an agent rule its limits. It takes some milliseconds, and longer under systemd.
func (s *Steward) limit(info tracer.SessionInfo) {
	l := apiLimits(s.o.Rules.limitsOf(&info))
	if l == nil || s.o.Limit == nil {
		return
	}
	go s.o.Registry.Guard(func() {
		system.Failure(s.o.Log, s.o.Limit(info.ID, info.Root, l)).Str(system.KeySession, info.ID.String()).
			Msg("limits of the rule's session not set")
	})
}
