//go:build linux

package rules

import (
	"cmp"
	"errors"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Share moves a server that several sessions use to a session of its own: by a rule, or, if that is "", on evidence.
func (s *Steward) Share(from tracer.SessionInfo, id tracer.Identity, rule, why string) {
	spec := tracer.SessionSpec{Root: id, UID: from.UID, Grace: from.Grace, KeptFrom: from.ID}
	info, err := s.handOver(spec, []tracer.Identity{id}, func(v registry.View, x *registry.Session) {
		s.noteShared(v, x, rule, from.ID)
	})
	log := s.o.Log.With().Str(system.KeyRule, rule).Uint32(system.KeyPID, id.PID).Logger()
	if err == nil {
		log.Info().Str(system.KeySession, info.ID.String()).Msg("shared server moved out of its session")
		s.Record(access.Keep.String(), access.AuditDone, why, info.ID, id)
	} else if !errors.Is(err, tracer.ErrNotFound) {
		log.Error().Err(err).Msg("shared server not moved out of its session")
	}
}

// noteShared notes that a session holds a server of several sessions.
func (s *Steward) noteShared(v registry.View, x *registry.Session, rule string, from tracer.SessionID) {
	its := s.of(x.ID())
	its.kept = &Kept{Reason: "a server of several sessions", From: from, Rule: rule}
	its.shared = cmp.Or(rule, "codex") // no other one is found by evidence
	v.Save(x)
	v.Changed(x.ID())
}

// shareAgain finds the rules of kept sessions without a remembered reason and without
// an end: a killed daemon may not have written it. Without a rule, too, they end with the last session.
func (s *Steward) shareAgain(p *policy.Policy) {
	lost, err := registry.Ask(s.o.Registry, func(v registry.View) (lost []tracer.SessionInfo) {
		for x := range v.Sessions() {
			if x.Info().Kept && x.Info().Expires == 0 && s.of(x.ID()).kept == nil && !x.Closed() {
				lost = append(lost, x.Info())
			}
		}
		return lost
	})
	if err != nil {
		return
	}
	for _, info := range lost {
		name := ""
		if rule := p.SharedServer(s.RootFacts(info.Root)); rule != nil {
			name = rule.Name
		}
		s.o.Registry.Do(func(t registry.Tx) {
			if x := t.Session(info.ID); x != nil && s.of(info.ID).kept == nil {
				s.noteShared(t.View, x, name, 0)
			}
		})
	}
}
