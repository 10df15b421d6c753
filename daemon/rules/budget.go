//go:build linux

package rules

import (
	"cmp"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/acts"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

type Excess struct {
	Session  tracer.SessionID
	UID      uint32
	Cause    tracer.Cause
	Grace    time.Duration
	ByPolicy bool // no caller asked for that limit
}

// overBudget judges the limits that the kernel does not enforce, against the last look.
// A session's own limits take precedence over the policy's default.
func (s *Steward) overBudget(v registry.View, p *policy.Policy) (over []Excess) {
	now := s.o.Clock.Monotonic()
	for x := range v.Sessions() {
		if x.Closed() {
			continue
		}
		if v.Paused(x.ID()) != 0 {
			s.of(x.ID()).budget = enforcer.Budget{} // a paused session does not become idle
		}
		cause := s.of(x.ID()).budget.Exceeded(budgetOf(x.Info(), p),
			usageOf(v, x), now, p.Defaults.IdleCPU.Std())
		if cause == tracer.CauseNone {
			continue
		}
		byPolicy := x.Info().Rule != 0 || cause == tracer.CauseMaxRSS && x.Info().MaxRSS == 0 ||
			cause == tracer.CauseIdle && x.Info().Idle == 0
		if excess := (Excess{x.ID(), x.Info().UID, cause, x.Info().Grace, byPolicy}); !s.Noted(excess) {
			over = append(over, excess)
		}
	}
	return over
}

// Noted reports whether a policy that is not enforced would have this end, and that is recorded already.
func (s *Steward) Noted(x Excess) bool {
	return x.ByPolicy && !s.o.Rules.Enforced(x.UID) && slices.Contains(s.of(x.Session).wouldEnd, x.Cause.String())
}

// budgetOf is a session with its own limits or the policy's.
func budgetOf(limits tracer.SessionInfo, p *policy.Policy) tracer.SessionInfo {
	if r := p.Opener(limits.Rule, limits.Name); limits.Rule != 0 && r != nil {
		t := p.Terms(r)
		limits.MaxRSS, limits.Idle = t.MaxRSS, t.Idle
		return limits
	}
	limits.MaxRSS = cmp.Or(limits.MaxRSS, uint64(p.Defaults.MaxRSS))
	limits.Idle = cmp.Or(limits.Idle, p.Defaults.Idle.Std())
	return limits
}

// usageOf is what the members of a session use, those of sessions nested in it included.
func usageOf(v registry.View, x *registry.Session) enforcer.Usage {
	sum := v.Usage(x) // its births include those in nested sessions
	for _, id := range v.Family(x.ID())[1:] {
		if in := v.Session(id); in != nil {
			used := v.Usage(in)
			sum.RSS, sum.CPU = sum.RSS+used.RSS, sum.CPU+used.CPU
		}
	}
	return sum
}

// walking asks for each look if a session has a limit that only looks show.
func (s *Steward) walking(v registry.View) registry.Want {
	p := s.o.Rules.Policy()
	for x := range v.Sessions() {
		if limits := budgetOf(x.Info(), p); !x.Closed() && (limits.MaxRSS != 0 || limits.Idle != 0) {
			return registry.WantEach
		}
	}
	return registry.WantNone
}

// spareLeftovers notes that the policy, were it enforced, would end the leftovers of a
// rule's session.
func (s *Steward) spareLeftovers(v registry.View, x *registry.Session) {
	r := s.o.Rules.Policy().Opener(x.Info().Rule, x.Info().Name)
	if x.RootDied() == 0 || x.Info().Rule == 0 || x.Info().State != tracer.StateActive ||
		s.o.Rules.Enforced(x.Info().UID) || r != nil && r.OnRootExit == "report" {
		return
	}
	cause := tracer.CauseRootExit.String()
	if slices.Contains(s.of(x.ID()).wouldEnd, cause) {
		return
	}
	s.of(x.ID()).wouldEnd = append(s.of(x.ID()).wouldEnd, cause)
	s.o.Log.Warn().Str(system.KeySession, x.ID().String()).
		Str(system.KeyReason, cause).Msg("would end: its root has exited")
}

// EndOver ends a session that is over a limit. If only the policy set the limit, that
// needs an enforced policy, and the breaker must allow it; otherwise the end is only
// recorded.
func (s *Steward) EndOver(x Excess) {
	log := s.o.Log.With().Str(system.KeySession, x.Session.String()).Str(system.KeyReason,
		x.Cause.String()).Logger()
	if x.ByPolicy {
		may, tripped := s.o.Rules.Enforced(x.UID), false
		if x.Cause != tracer.CauseOwnerExit { // the kernel may have been first: countRuled counts it
			may, tripped = s.o.Rules.MayEnd(x.UID)
		}
		if tripped {
			s.tripped(x.UID)
			s.Reterm()
		}
		if !may {
			s.o.Registry.Do(func(t registry.Tx) {
				if held := t.Session(x.Session); held != nil {
					its := s.of(x.Session)
					its.wouldEnd = append(its.wouldEnd, x.Cause.String())
					t.Save(held)
					log.Warn().Msg("would end (automatic ends are only logged)")
				}
			})
			return
		}
	}
	if err := acts.Guarded(s.o.Enforcer, x.Session, tracer.Identity{}); err != nil {
		log.Error().Err(err).Msg("over its limit, but not ended: refused")
		s.o.Audit(access.AuditRecord{
			Time: time.Now().UTC(), Verb: access.End.String(), Decision: access.AuditRefused, Reason: err.Error(),
			Target: &access.AuditTarget{Session: x.Session.String()}, Mode: s.o.Rules.ModeOf(x.UID),
		})
		return
	}
	log.Info().Msg("over its limit: ending")
	if err := s.o.Enforcer.End(x.Session, x.Cause, x.Grace); err != nil {
		log.Error().Err(err).Msg("over its limit, but not ended: failed")
	}
}
