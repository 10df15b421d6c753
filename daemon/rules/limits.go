//go:build linux

package rules

import (
	"cmp"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

// limitsOf are the policy's limits for a session. Containers have cgroups of their own.
func (r *Policy) limitsOf(info *tracer.SessionInfo) policy.Limits {
	p := r.Policy()
	switch a := p.Opener(info.Rule, info.Name); {
	case !r.Enforced(info.UID), info.Rule == policy.ContainerRule:
		return policy.Limits{}
	case info.Rule == policy.AgentRule && a != nil:
		return p.Terms(a).Limits
	}
	return p.Defaults.Limits
}

// Held are these, for a cgroup; nil: none. A host that cannot set one must not refuse every session.
func (r *Policy) Held(info tracer.SessionInfo) *api.Limits {
	l := r.limitsOf(&info)
	a := &api.Limits{MemoryBytes: int64(l.Memory), MemoryHighBytes: int64(l.MemoryHigh),
		CPUs: float64(l.CPUs) / 1000, Tasks: l.MaxTasks, IOWeight: l.IOWeight, IfPossible: true}
	if !a.Any() {
		return nil
	}
	return a
}

// HeldText names them; "": none.
func (r *Policy) HeldText(info tracer.SessionInfo) string { return display.Account(r.Held(info), nil) }

// Returns reports whether members of a session that leave its cgroup are moved back.
func (r *Policy) Returns(info tracer.SessionInfo) bool { return r.limitsOf(&info).Leave == "return" }

// Limited adds the limits of the defaults to those that a caller asks for, if any; nil: none.
func (r *Policy) Limited(l *api.Limits, uid uint32) *api.Limits {
	given := r.Held(tracer.SessionInfo{UID: uid})
	if l == nil || given == nil {
		return cmp.Or(l, given)
	}
	l.MemoryBytes = cmp.Or(l.MemoryBytes, given.MemoryBytes)
	l.MemoryHighBytes = cmp.Or(l.MemoryHighBytes, given.MemoryHighBytes)
	l.CPUs, l.Tasks = cmp.Or(l.CPUs, given.CPUs), cmp.Or(l.Tasks, given.Tasks)
	l.IOWeight = cmp.Or(l.IOWeight, given.IOWeight)
	return l
}

// limit gives the session of an agent rule its limits, or takes what it had. It takes some milliseconds.
func (s *Steward) limit(info tracer.SessionInfo) {
	if s.o.Limit == nil {
		return
	}
	l := cmp.Or(s.o.Rules.Held(info), &api.Limits{})
	go s.o.Registry.Guard(func() {
		system.Failure(s.o.Log, s.o.Limit(info.ID, info.Root, l)).Str(system.KeySession, info.ID.String()).
			Msg("limits of the rule's session not set")
	})
}
