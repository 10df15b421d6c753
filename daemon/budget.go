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
func (o *Registry) overBudget(p *policy.Policy) (over []excess) {
	d := &p.Defaults
	now := o.clock.monotonic()
	for _, s := range o.sessions {
		if s.closed {
			continue
		}
		limits := s.info
		limits.MaxRSS = cmp.Or(limits.MaxRSS, uint64(d.MaxRSS))
		limits.Idle = cmp.Or(limits.Idle, d.Idle.Std())
		if r := p.AgentNamed(s.info.Name); s.info.Rule != 0 && r != nil {
			t := p.Terms(r)
			limits.MaxRSS, limits.Idle = t.MaxRSS, t.Idle
		}
		u := enforcer.Usage{RSS: s.rss, CPU: s.cpu + s.cpuDead, Births: s.info.Forks}
		cause := s.budget.Exceeded(limits, u, now, d.IdleCPU.Std())
		if cause == tracer.CauseNone {
			continue
		}
		byPolicy := s.info.Rule != 0 || cause == tracer.CauseMaxRSS && s.info.MaxRSS == 0 || cause == tracer.CauseIdle && s.info.Idle == 0
		over = append(over, excess{s.info.ID, cause, s.info.Grace, byPolicy})
	}
	return over
}

// spareLeftovers notes that the policy, were it enforced, would end what the
// root of a rule's session leaves.
func (o *Registry) spareLeftovers(s *Session) {
	if s.rootDied == 0 || slices.Contains(s.wouldEnd, tracer.CauseRootExit.String()) {
		return
	}
	if s.info.Rule == 0 || s.info.State != tracer.StateActive || o.mode() == "enforce" || o.reports(s.info.Name) {
		return
	}
	s.wouldEnd = append(s.wouldEnd, tracer.CauseRootExit.String())
	o.log.Warn().Str(logging.KeySession, s.info.ID.String()).Str(logging.KeyReason, tracer.CauseRootExit.String()).Msg("would end: its root has exited")
}

// endOver ends a session that is over a limit. One that only the policy set is
// carried out if the policy is, and the breaker allows it; else it is recorded
// what would have ended.
func (p *sampler) endOver(x excess) {
	o := p.registry
	log := o.log.With().Str(logging.KeySession, x.session.String()).Str(logging.KeyReason, x.cause.String()).Logger()
	if x.byPolicy {
		if o.wouldEnd(x) && !p.rules.enforced() {
			return // said already
		}
		may, tripped := p.rules.mayEnd()
		if tripped {
			p.tripped()
			log.Error().Msg("too many ends by the policy: from now on it is only observed")
		}
		if !may {
			o.noteWouldEnd(x)
			log.Warn().Msg("would end, were the policy carried out")
			return
		}
	}
	if err := o.enforcer.CheckEnd(x.session, tracer.Identity{}); err != nil {
		log.Error().Err(err).Msg("over its limit and not ended")
		o.audit.Add(audit.Record{
			Time: time.Now().UTC(), Verb: access.End.String(), Decision: audit.Refused, Reason: err.Error(),
			Target: &audit.Target{Session: x.session.String()}, Mode: o.mode(),
		})
		return
	}
	log.Info().Msg("over its limit: ending")
	if err := o.enforcer.End(x.session, x.cause, x.grace); err != nil {
		log.Error().Err(err).Msg("not ended")
	}
}

// wouldEnd reports that it was noted before that the session would be ended.
func (o *Registry) wouldEnd(x excess) (noted bool) {
	_ = o.do(func() {
		s := o.sessions[x.session]
		noted = s == nil || slices.Contains(s.wouldEnd, x.cause.String())
	})
	return noted
}

func (o *Registry) noteWouldEnd(x excess) {
	_ = o.do(func() {
		if s := o.sessions[x.session]; s != nil {
			s.wouldEnd = append(s.wouldEnd, x.cause.String())
			o.save(s)
		}
	})
}
