//go:build linux

package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/acts"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// Agent rules. The kernel opens a session for every exec under a name that some rule has, without effect so far: its
// root's exit ends no process. If a rule matches here, the session gets its terms; else it is dissolved.

func (s *Steward) arm(p *policy.Policy) {
	var agents []tracer.Agent
	for i := range p.Agents {
		r := &p.Agents[i]
		if !r.Enabled {
			continue
		}
		for _, comm := range r.Match.Comm {
			at := slices.IndexFunc(agents, func(a tracer.Agent) bool { return a.Comm == comm })
			if at < 0 {
				at = len(agents)
				agents = append(agents, tracer.Agent{Comm: comm, KeepOnRootExit: true})
			}
			agents[at].Nests = agents[at].Nests || r.Nests()
			agents[at].Exact = agents[at].Exact || r.Match.OnlyComm() && !p.MayProtect(comm)
		}
	}
	s.joins.set(s.o.Kernel, func(j *joins) {
		j.ruled = slices.ContainsFunc(p.Containers, func(r policy.Container) bool { return r.Opens() })
		j.whole = p.Whole()
	})
	s.o.Kernel.SetTraces(p.AcceptsTrace())
	err := s.o.Kernel.SetAgents(agents)
	system.Failure(s.o.Log, err).Msg("agent rules not in force")
	s.o.Rules.mu.Lock()
	defer s.o.Rules.mu.Unlock()
	s.o.Rules.unarmed = err
}

// Judge has JudgeAgents judge a session that an exec opened. If its queue is full,
// the next look asks again.
func (s *Steward) Judge(info tracer.SessionInfo) {
	if judged(info) || info.State != tracer.StateActive && !unasked(info) {
		return
	}
	system.Offer(s.unjudged, info.ID)
}

// judged reports whether a session was not opened by an exec, or has its terms already.
func judged(info tracer.SessionInfo) bool { return !info.Agent || info.Rule != 0 || info.For != 0 }

func (s *Steward) judgeLater(id tracer.SessionID, after time.Duration) {
	time.AfterFunc(after, func() {
		s.o.Registry.Guard(func() {
			system.Offer(s.unjudged, id) // the next look asks
		})
	})
}

// JudgeAgents judges the sessions that the kernel opened, one after the other.
func (s *Steward) JudgeAgents(ctx context.Context, find FindAsker) {
	system.Each(ctx, s.unjudged, func(id tracer.SessionID) { s.judgeAgent(id, find) })
}

func (s *Steward) judgeAgent(id tracer.SessionID, find FindAsker) {
	info, err := s.o.Kernel.Session(id)
	if err != nil || judged(info) || info.State != tracer.StateActive {
		delete(s.tries, id)
	}
	if err != nil || judged(info) {
		return
	}
	if info.State != tracer.StateActive {
		if unasked(info) && info.State == tracer.StateEmpty {
			joined{s, info}.forget()
		}
		return
	}
	p := s.o.Rules.Policy()
	facts := s.RootFacts(info.Root)
	if facts != nil && info.Name != "" {
		// The name that was executed. A script run by "#!/usr/bin/env" has another comm
		// by now, and any process may change its comm.
		facts.Comm = info.Name
	}
	rule := p.Agent(facts)
	if rule != nil && info.Parent != 0 && !rule.Nests() {
		rule = nil // this one belongs to the session around it
	}
	switch {
	case rule == nil && info.Joined:
		joined{s, info}.judge(p, find)
	case rule == nil:
		s.dissolve(info, facts)
	case s.openFor(p, info, policy.AgentRule, rule.Name):
		s.Record("agent", access.AuditDone, fmt.Sprintf("rule %s (%s)", rule.Name,
			p.Origin(rule)), id, info.Root)
	}
}

// openFor gives a session the terms of its rule, and reports whether it could.
func (s *Steward) openFor(p *policy.Policy, info tracer.SessionInfo, list uint32, rule string) bool {
	if !s.setTerms(p, info, list, rule) {
		return false
	}
	s.o.Log.Info().Str(system.KeySession, info.ID.String()).Str(system.KeyRule, rule).
		Uint32(system.KeyPID, info.Root.PID).Msg("session opened by a rule")
	s.o.Registry.Do(func(t registry.Tx) { // readers have got the event of its beginning, without the rule
		if x := t.Session(info.ID); x != nil && x.Active() {
			t.Apply([]tracer.Event{{Type: tracer.EventSession, Time: s.o.Clock.Boottime(),
				Session: info.ID, State: tracer.StateActive}})
		}
	})
	s.bar(info)
	return true
}

func (s *Steward) setTerms(p *policy.Policy, info tracer.SessionInfo, list uint32, rule string) bool {
	err := s.o.Kernel.SetTerms(info.ID, s.terms(p, list, rule, info.UID))
	if err == nil {
		s.reread(info.ID)
		info.Rule, info.Name = list, rule
		s.limit(info)
	}
	s.failed(err, info.ID).Msg("limits of the rule's session not set")
	return err == nil
}

// failed is the line that says what could not be done to a session, nil if that is over.
func (s *Steward) failed(err error, id tracer.SessionID) *zerolog.Event {
	if err == nil || errors.Is(err, tracer.ErrBusy) || errors.Is(err, tracer.ErrNotFound) {
		return nil
	}
	return s.o.Log.Error().Err(err).Str(system.KeySession, id.String())
}

// bar ends a session that a rule opens while a halt is in force, in either mode of the policy: root has
// asked for it. The kernel refuses at their exec only agents that their name makes one.
func (s *Steward) bar(info tracer.SessionInfo) {
	h := s.o.Kernel.Halted()
	if !h.Bars(info.Parent != 0) || info.Created < h.Since {
		return
	}
	err := acts.Guarded(s.o.Enforcer, info.ID, tracer.Identity{})
	if err == nil {
		err = s.o.Registry.Asked([]tracer.SessionID{info.ID},
			&api.Caller{UID: int(h.UID), Reason: h.Reason}, nil)
	}
	if err == nil {
		err = s.o.Enforcer.End(info.ID, tracer.CauseHalt, 0)
	}
	system.Failure(s.o.Log, err).Str(system.KeySession, info.ID.String()).Msg("agent not halted")
}

func (s *Steward) dissolve(info tracer.SessionInfo, facts *policy.Facts) {
	n, err := s.o.Kernel.Dissolve(info.ID)
	if err != nil {
		s.failed(err, info.ID).Msg("lookalike not released")
		return
	}
	what := "it exited before it could be checked"
	if facts != nil {
		what = fmt.Sprintf("no rule matches comm %q, exe %q", facts.Comm, facts.Exe)
	}
	s.o.Log.Info().Str(system.KeySession, info.ID.String()).Uint32(system.KeyPID, info.Root.PID).
		Int(system.KeyRemoved, n).Str(system.KeyWhy, what).Msg("lookalike released")
	s.Record("agent", access.AuditRefused, what, info.ID, info.Root)
	s.o.Registry.Do(func(t registry.Tx) { t.LetGo(info.ID) })
}

// terms are the policy's limits for a rule's sessions of a user. With observe there are no
// limits, and what would have ended is recorded.
func (s *Steward) terms(p *policy.Policy, list uint32, rule string, uid uint32) tracer.SessionSpec {
	spec := tracer.SessionSpec{Name: rule, Rule: list, KeepOnRootExit: true}
	t := p.Terms(p.Opener(list, rule))
	spec.Grace, spec.Protection.Guard = t.Grace, tracer.GuardOff
	if t.Guarded {
		spec.Protection.Guard = tracer.GuardOn
	}
	if t.Spared {
		spec.Protection.Spare = tracer.SpareRecord
		if p.Enforce() {
			spec.Protection.Spare = tracer.SpareRefuse
		}
	}
	if s.o.Rules.Enforced(uid) {
		spec.MaxProcesses, spec.MaxLifetime, spec.MaxRSS, spec.Idle = t.MaxProcesses, t.MaxLifetime, t.MaxRSS, t.Idle
		spec.KeepOnRootExit = t.Report
	}
	return spec
}

// Reterm sets the limits of rules' sessions again, after the policy was read again, or
// the breaker opened or was closed.
func (s *Steward) Reterm() {
	s.Arm()
	due, err := registry.Ask(s.o.Registry, func(v registry.View) (due []tracer.SessionInfo) {
		for x := range v.Sessions() {
			if x.Info().Rule != 0 && x.Active() {
				due = append(due, x.Info())
			}
		}
		return due
	})
	if err != nil {
		return
	}
	p := s.o.Rules.Policy()
	for _, info := range due {
		r := p.Opener(info.Rule, info.Name)
		if r != nil && r.Enabled { // else its rule is gone: its limits stay
			s.setTerms(p, info, info.Rule, info.Name)
		}
	}
}

// countRuled counts the end of a session by the policy that the kernel carried out itself, once its receipt
// shows that a process was ended: a root that leaves no process behind says nothing about the rule.
func (s *Steward) countRuled(x *registry.Session) {
	info, r := x.Info(), x.Receipt()
	if info.Rule == 0 && info.For == 0 || info.EndedAt < s.began {
		return // the ends before this daemon's start are not of this minute
	}
	switch info.Cause {
	case tracer.CauseRootExit, tracer.CauseOwnerExit, tracer.CauseMaxLifetime, tracer.CauseMaxProcesses:
	default:
		return // MayEnd has counted it, or a caller asked for it
	}
	ended := slices.ContainsFunc(r.Processes,
		func(p api.Outcome) bool { return p.Outcome == api.OutcomeTerm || p.Outcome == api.OutcomeKill })
	if !ended && r.Killed == 0 && !r.Truncated {
		return
	}
	if _, tripped := s.o.Rules.MayEnd(info.UID); tripped {
		s.tripped(info.UID)
		go s.o.Registry.Guard(s.Reterm)
	}
}

func (s *Steward) tripped(uid uint32) {
	s.o.Log.Error().Uint32(system.KeyUID, uid).Msg("circuit breaker open: too many automatic ends of the user's sessions, from now on they are only logged")
}

// reread takes the kernel's record of a session, which has a rule or new terms now: its root may
// have died before.
func (s *Steward) reread(id tracer.SessionID) {
	s.o.Registry.Do(func(t registry.Tx) {
		if x := t.Session(id); x != nil && !x.Closed() {
			t.Refresh(x)
			t.Changed(id)
			s.spareLeftovers(t.View, x)
		}
	})
}

// FindRunning opens sessions over the running processes and containers that a rule
// matches, each with its descendants: the oldest first, so that an agent that another
// agent started is inside the session of that one.
func (s *Steward) FindRunning() {
	p := s.o.Rules.Policy()
	agents, whole := slices.ContainsFunc(p.Agents,
		func(r policy.Agent) bool { return r.Enabled }), p.Whole()
	if !agents && !whole {
		return
	}
	var found []tracer.Process
	shims := make(map[uint32]bool)
	err := s.o.Kernel.Snapshot(0, func(t *tracer.Process) error {
		shims[t.PID] = whole && t.Comm.String() == lookup.ContainerdShim
		if t.Session == 0 && !t.Dead && !t.Kernel && t.PID > 1 && t.Flags&tracer.FlagProtected == 0 {
			found = append(found, *t)
		}
		return nil
	})
	if err != nil {
		s.o.Log.Error().Err(err).Msg("running agents not searched for")
		return
	}
	slices.SortFunc(found, func(a, b tracer.Process) int { return cmp.Compare(a.Start, b.Start) })
	for i := range found {
		t := &found[i]
		if agents && (looksFor(p, t.Comm.String()) ||
			interpreters.MatchString(procfs.Base(s.o.Proc.Link(t.PID, "exe")))) {
			facts := s.RootFacts(t.Identity)
			if rule := RanAs(p, facts); rule != nil {
				s.adopt(p, t, facts, policy.AgentRule, rule)
			}
		}
		if shims[t.Parent.PID] {
			s.adoptMain(p, t)
		}
	}
}

func looksFor(p *policy.Policy, comm string) bool {
	return slices.ContainsFunc(p.Agents, func(r policy.Agent) bool {
		return r.Enabled && slices.Contains(r.Match.Comm, comm)
	})
}

// adoptMain opens a session over the main process of a container that runs, if a rule wants that.
func (s *Steward) adoptMain(p *policy.Policy, t *tracer.Process) {
	in, err := s.o.Containers.Entered(t.PID, t.PID)
	if err != nil || in.Main != t.PID {
		return
	}
	if rule := ruleFor(p, in); rule != nil && rule.Whole() {
		s.adopt(p, t, s.RootFacts(t.Identity), policy.ContainerRule, rule.Agent())
	}
}

// adopt opens the session of a rule over a process that runs.
func (s *Steward) adopt(p *policy.Policy, t *tracer.Process, facts *policy.Facts,
	list uint32, rule *policy.Agent) {
	if e, err := s.o.Kernel.Lookup(t.PID); err == nil && e.Session != 0 {
		return // of an ancestor, or of another rule, by now
	}
	if len(p.Protected(facts)) > 0 || s.o.Enforcer.CheckRoot(t.Identity, tracer.Identity{}) != nil {
		return
	}
	spec := s.terms(p, list, rule.Name, t.UID)
	spec.Root, spec.UID, spec.Adopted = t.Identity, t.UID, true
	info, n, err := s.o.Registry.Adopt(spec, 0)
	if err != nil {
		s.o.Log.Error().Err(err).Str(system.KeyRule, rule.Name).
			Uint32(system.KeyPID, t.PID).Msg("running process not adopted")
		return
	}
	s.reread(info.ID)
	s.o.Log.Info().Str(system.KeySession, info.ID.String()).Str(system.KeyRule, rule.Name).
		Uint32(system.KeyPID, t.PID).Int(system.KeyAdded, n).Msg("running process adopted")
	s.Record("agent", access.AuditDone, fmt.Sprintf("rule %s (%s): it was running",
		rule.Name, p.Origin(rule)),
		info.ID, info.Root)
}
