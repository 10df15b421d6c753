//go:build linux

package daemon

import (
	"cmp"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/audit"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"

	"github.com/lineage-ebpf/lineage/daemon/access"
)

// excess is a session that is over one of its limits.
type excess struct {
	session  tracer.SessionID
	cause    tracer.Cause
	grace    time.Duration
	byPolicy bool // nobody asked for that limit by name
}

// overBudget judges the limits that the kernel does not, against the last
// sample. What a session was made with comes before the policy's default.
func (s *steward) overBudget(v View, p *policy.Policy) (over []excess) {
	d := &p.Defaults
	now := s.clock.monotonic()
	for _, x := range v.o.sessions {
		if x.closed {
			continue
		}
		limits := x.info
		limits.MaxRSS = cmp.Or(limits.MaxRSS, uint64(d.MaxRSS))
		limits.Idle = cmp.Or(limits.Idle, d.Idle.Std())
		if r := p.AgentNamed(x.info.Name); x.info.Rule != 0 && r != nil {
			t := p.Terms(r)
			limits.MaxRSS, limits.Idle = t.MaxRSS, t.Idle
		}
		u := enforcer.Usage{RSS: x.rss, CPU: x.cpu + x.cpuDead, Births: x.info.Forks}
		cause := s.of(x.info.ID).budget.Exceeded(limits, u, now, d.IdleCPU.Std())
		if cause == tracer.CauseNone {
			continue
		}
		byPolicy := x.info.Rule != 0 || cause == tracer.CauseMaxRSS && x.info.MaxRSS == 0 || cause == tracer.CauseIdle && x.info.Idle == 0
		over = append(over, excess{x.info.ID, cause, x.info.Grace, byPolicy})
	}
	return over
}

// spareLeftovers notes that the policy, were it enforced, would end what the
// root of a rule's session leaves.
func (s *steward) spareLeftovers(v View, x *Session) {
	if x.rootDied == 0 || x.info.Rule == 0 || x.info.State != tracer.StateActive || s.rules.mode() == "enforce" || s.reportsOnly(x.info.Name) {
		return
	}
	cause := tracer.CauseRootExit.String()
	if slices.Contains(s.of(x.info.ID).wouldEnd, cause) {
		return
	}
	s.of(x.info.ID).wouldEnd = append(s.of(x.info.ID).wouldEnd, cause)
	s.log.Warn().Str(logging.KeySession, x.info.ID.String()).Str(logging.KeyReason, cause).Msg("would end: its root has exited")
}

// endOver ends a session that is over a limit. One that only the policy set is
// carried out if the policy is, and the breaker allows it; else it is recorded
// what would have ended.
func (s *steward) endOver(x excess) {
	log := s.log.With().Str(logging.KeySession, x.session.String()).Str(logging.KeyReason, x.cause.String()).Logger()
	if x.byPolicy {
		if s.wouldEnd(x) && !s.rules.enforced() {
			return // said already
		}
		may, tripped := s.rules.mayEnd()
		if tripped {
			s.reterm()
			log.Error().Msg("too many ends by the policy: from now on it is only observed")
		}
		if !may {
			s.noteWouldEnd(x)
			log.Warn().Msg("would end, were the policy carried out")
			return
		}
	}
	if err := s.enforcer.CheckEnd(x.session, tracer.Identity{}); err != nil {
		log.Error().Err(err).Msg("over its limit and not ended")
		s.audit.Add(audit.Record{
			Time: time.Now().UTC(), Verb: access.End.String(), Decision: audit.Refused, Reason: err.Error(),
			Target: &audit.Target{Session: x.session.String()}, Mode: s.rules.mode(),
		})
		return
	}
	log.Info().Msg("over its limit: ending")
	if err := s.enforcer.End(x.session, x.cause, x.grace); err != nil {
		log.Error().Err(err).Msg("not ended")
	}
}

// wouldEnd reports that it was noted before that the session would be ended.
func (s *steward) wouldEnd(x excess) (noted bool) {
	_ = s.registry.do(func() {
		noted = s.registry.sessions[x.session] == nil || slices.Contains(s.of(x.session).wouldEnd, x.cause.String())
	})
	return noted
}

func (s *steward) noteWouldEnd(x excess) {
	_ = s.registry.do(func() {
		v := View{s.registry}
		if held := v.Session(x.session); held != nil {
			own := s.of(x.session)
			own.wouldEnd = append(own.wouldEnd, x.cause.String())
			v.Save(held)
		}
	})
}
