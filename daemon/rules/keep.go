//go:build linux

package rules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

// maxLifetime is the most that nanosecond clocks can add up.
const maxLifetime = 100 * 365 * 24 * time.Hour

// Kept is why a session outlives the one that its processes came from. It is
// never changed.
type Kept struct {
	Reason string
	From   tracer.SessionID
	By     *api.Caller `json:",omitempty"` // the caller that asked for it
	Rule   string      `json:",omitempty"` // the rule that asked for it
}

// Keep opens a kept session over processes of one session and their
// descendants. The first of them is its root. Without a name it gets the root's.
func (s *Steward) Keep(from tracer.SessionInfo, all []tracer.Identity, name string,
	why Kept, until time.Time) (tracer.SessionInfo, error) {
	spec := tracer.SessionSpec{
		Root: all[0], Name: name, UID: from.UID, Grace: from.Grace, KeptFrom: from.ID,
		MaxLifetime: min(max(time.Until(until), time.Millisecond), maxLifetime),
	}
	why.From = from.ID
	return s.handOver(spec, all, func(_ registry.View,
		x *registry.Session) {
		s.of(x.ID()).kept = &why
	})
}

// handOver opens a session over members of another one. A spec without a name gets that
// of the root's program, numbered while other sessions of the user have it.
func (s *Steward) handOver(spec tracer.SessionSpec, all []tracer.Identity,
	note func(registry.View, *registry.Session)) (tracer.SessionInfo, error) {
	if spec.Name != "" {
		return s.o.Registry.HandOver(spec, all, note)
	}
	var name string
	if f := s.RootFacts(spec.Root); f != nil {
		name = api.SessionWord(f.Comm)
	}
	spec.Name = name
	for n := 2; ; n++ {
		info, err := s.o.Registry.HandOver(spec, all, note)
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeBusyName {
			return info, err
		}
		spec.Name = fmt.Sprintf("%s-%d", name, n)
	}
}

// KeepByRule applies the keep rules to each program that members exec, and after a
// reload to all members.
func (s *Steward) KeepByRule(ctx context.Context) {
	system.Each(ctx, s.execs, func(id tracer.Identity) { s.keepIfRuled(s.o.Rules.Policy(), id) })
}

func (s *Steward) keepRunning(p *policy.Policy) {
	s.shareAgain(p)
	if len(p.Keep) == 0 && len(p.Brokers.Shared) == 0 {
		return
	}
	var members []tracer.Identity
	err := s.o.Kernel.Snapshot(0, func(t *tracer.Process) error {
		if t.Session != 0 && !t.Dead && t.Flags&tracer.FlagRoot == 0 {
			members = append(members, t.Identity)
		}
		return nil
	})
	system.Failure(s.o.Log, err).Msg("keep rules not applied to running members")
	for _, id := range members {
		s.keepIfRuled(p, id)
	}
}

func (s *Steward) keepIfRuled(p *policy.Policy, id tracer.Identity) {
	e, err := s.o.Kernel.Lookup(id.PID)
	if err != nil || e.Identity != id || e.Session == 0 || e.Flags&tracer.FlagRoot != 0 {
		return
	}
	facts := s.RootFacts(id)
	rule, shared := p.Keeps(facts, time.Now()), p.SharedServer(facts)
	if rule == nil && shared == nil {
		return
	}
	from, err := registry.Ask(s.o.Registry,
		func(v registry.View) tracer.SessionInfo { return v.Ask(e.Session).Info() })
	if err != nil || from.ID == 0 || from.Kept || from.State != tracer.StateActive {
		return
	}
	if rule == nil {
		s.Share(from, id, shared.Name, fmt.Sprintf("rule %s (%s): a server of several sessions",
			shared.Name, p.Origin(shared)))
		return
	}
	info, err := s.Keep(from, []tracer.Identity{id}, "", Kept{Reason: rule.Reason, Rule: rule.Name},
		rule.Until.Time())
	if err != nil {
		if !errors.Is(err, tracer.ErrNotFound) {
			s.o.Log.Error().Err(err).Uint32(system.KeyPID, id.PID).
				Str(system.KeyRule, rule.Name).Msg("process not kept by a rule")
		}
		return
	}
	s.o.Log.Info().Str(system.KeySession, info.ID.String()).
		Str(system.KeyRule, rule.Name).Uint32(system.KeyPID, id.PID).Msg("kept by a rule")
	s.Record(access.Keep.String(), access.AuditDone, fmt.Sprintf("rule %s (%s): %s",
		rule.Name, p.Origin(rule), rule.Reason), info.ID, id)
}
