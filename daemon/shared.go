//go:build linux

package daemon

import (
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/audit"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

// share hands a server that several sessions use over to a session of its own.
func (s *server) share(from tracer.SessionInfo, id tracer.Identity, p *policy.Policy, rule *policy.Shared) error {
	spec := tracer.SessionSpec{Root: id, UID: from.UID, Grace: from.Grace, KeptFrom: from.ID}
	info, err := s.handOver(spec, []tracer.Identity{id}, func(x *Session) {
		s.registry.shared(x, rule, from.ID)
	})
	if err != nil {
		return err
	}
	s.log.Info().Str(logging.KeySession, info.ID.String()).Str(logging.KeyRule, rule.Name).Uint32(logging.KeyPID, id.PID).Msg("shared server let out of its session")
	s.audit.Add(audit.Record{
		Time: time.Now().UTC(), Verb: access.Keep.String(), Decision: audit.Done,
		Reason: fmt.Sprintf("rule %s (%s): a server of several sessions", rule.Name, p.Origin(rule)),
		Target: &audit.Target{Session: info.ID.String(), PID: int(id.PID), StartNS: api.U64(id.Start)}, Mode: s.rules.mode(),
	})
	return nil
}

// shared notes that a session holds a server of several.
func (o *Registry) shared(x *Session, rule *policy.Shared, from tracer.SessionID) {
	x.kept = &kept{Reason: "a server of several sessions", From: from, Rule: rule.Name}
	x.Shared = rule.Name
	o.save(x)
	o.changed(x.info.ID)
}

// shareAgain finds the rules of kept sessions that nothing is remembered of and
// that would have no end: a daemon that is killed may not have written it.
func (s *server) shareAgain(p *policy.Policy) {
	var lost []tracer.SessionInfo
	_ = s.registry.do(func() {
		for _, x := range s.registry.sessions {
			if x.info.Kept && x.info.Expires == 0 && x.kept == nil && !x.closed {
				lost = append(lost, x.info)
			}
		}
	})
	for _, info := range lost {
		rule := p.SharedServer(s.rootFacts(info.Root))
		if rule == nil {
			continue
		}
		_ = s.registry.do(func() {
			if x := s.registry.sessions[info.ID]; x != nil && x.kept == nil {
				s.registry.shared(x, rule, 0)
			}
		})
	}
}

// used reports whether a session lives that may use a shared server. Who
// connects to it is not told by the kernel, so each of its uid may: a server
// that is ended too late is a leak that is shown, one that is ended too early
// is somebody's broken build.
func (o *Registry) used(x *Session) bool {
	for _, s := range o.sessions {
		if s != x && !s.closed && s.info.State == tracer.StateActive && s.info.UID == x.info.UID && !s.info.Kept && s.For == 0 {
			return true
		}
	}
	return false
}
