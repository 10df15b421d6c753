//go:build linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/audit"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	maxKept   = 256 // processes of one request
	maxReason = 1000

	maxLifetime = 100 * 365 * 24 * time.Hour // what clocks of nanoseconds can add up
)

// kept is why a session outlives the one that its processes came from. It is
// never changed.
type kept struct {
	Reason string
	From   tracer.SessionID
	By     *api.Caller `json:",omitempty"` // who asked for it
	Rule   string      `json:",omitempty"` // that asked for it
}

// postKeep hands members over to a kept session.
func (s *server) postKeep(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	var req api.KeepRequest
	if err := s.decode(w, r, &req); err != nil {
		return err
	}
	now := time.Now()
	bad := func(format string, args ...any) error {
		return api.NewError(api.CodeBadRequest, fmt.Sprintf(format, args...), "")
	}
	switch {
	case c.Foreign:
		return foreign()
	case len(req.Refs) == 0 || len(req.Refs) > maxKept:
		return bad("refs: want 1 to %d processes", maxKept)
	case strings.TrimSpace(req.Reason) == "" || len(req.Reason) > maxReason:
		return bad("reason: want a text of at most %d bytes", maxReason)
	case !req.Until.After(now):
		return bad("until %s: want a time to come", req.Until.Format(time.RFC3339))
	}
	var all []tracer.Identity
	var from tracer.SessionInfo
	for _, ref := range req.Refs {
		if ref.StartNS == 0 {
			return api.NewError(api.CodeBadRequest, fmt.Sprintf("keep %v: want PID@START_NS", ref), `"lineage tree -o name" prints it`)
		}
		id, live, err := s.identity(ref.String(), c)
		if err != nil {
			return err
		}
		info, err := s.keepable(id, live, c)
		if err != nil {
			return err
		}
		if len(all) > 0 && info.ID != from.ID {
			return bad("pid %d is in session %v, pid %d in %v: keep them one by one", id.PID, info.ID, all[0].PID, from.ID)
		}
		all, from = append(all, id), info
	}
	by := &api.Caller{UID: int(c.UID), PID: int(c.ID.PID), Comm: c.Comm}
	info, err := s.keep(from, all, kept{Reason: req.Reason, By: by}, req.Until)
	if err != nil {
		return keepError(all[0], err)
	}
	var d api.Session
	if err := s.registry.do(func() {
		if x := s.registry.sessions[info.ID]; x != nil {
			d = s.registry.session(x, c)
		}
	}); err != nil {
		return err
	}
	d.Warnings = s.losesTerminal(all, from.ID)
	s.log.Info().Str(logging.KeySession, d.ID).Uint32(logging.KeyUID, c.UID).Uint32(logging.KeyPID, all[0].PID).Msg("process kept")
	s.done(c, access.Keep, d.ID)
	d.Head = head("session")
	return reply(w, http.StatusCreated, d)
}

// keepable finds the session that a process would be handed over from.
func (s *server) keepable(id tracer.Identity, live bool, c access.Caller) (info tracer.SessionInfo, err error) {
	e, lerr := s.kernel.Lookup(id.PID)
	member := live && lerr == nil && e.Identity == id && e.Session != 0
	d := access.Decide(c, access.Keep, access.Scope{UID: c.UID})
	err = s.registry.do(func() {
		if x := s.registry.sessionOf(e.Session); member && x != nil {
			info = x.info
		}
	})
	if d.Allow && info.ID != 0 {
		d = s.decideChain(c, access.Keep, info.ID) // it will be nested in none of these
	}
	switch {
	case err != nil:
		return info, err
	case !d.Allow:
		return info, s.refuse(c, access.Keep, fmt.Sprintf("pid %d", id.PID), d)
	case !live:
		return info, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d has exited", id.PID), "")
	case info.ID == 0:
		return info, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d is in no session: nothing ends it", id.PID), "")
	case info.Kept:
		return info, api.NewError(api.CodeBadRequest, fmt.Sprintf("pid %d is kept already, in session %v", id.PID, info.ID), "")
	}
	return info, nil
}

func keepError(id tracer.Identity, err error) error {
	switch {
	case errors.Is(err, tracer.ErrRoot):
		return api.NewError(api.CodeGuarded, fmt.Sprintf("keep pid %d: it is its session's root; with it the session goes on anyway", id.PID), "keep what it started")
	case errors.Is(err, tracer.ErrNotFound):
		return api.NewError(api.CodeNotFound, fmt.Sprintf("keep pid %d: it is gone, or left its session", id.PID), "")
	case errors.Is(err, tracer.ErrProtected):
		return api.NewError(api.CodeGuarded, fmt.Sprintf("keep pid %d: it is protected, nothing ends it", id.PID), "")
	}
	return err
}

// keep opens a kept session over processes of one session and their
// descendants. The first of them is its root.
func (s *server) keep(from tracer.SessionInfo, all []tracer.Identity, why kept, until time.Time) (info tracer.SessionInfo, err error) {
	spec := tracer.SessionSpec{
		Root: all[0], UID: from.UID, Grace: from.Grace, KeptFrom: from.ID,
		MaxLifetime: min(max(time.Until(until), time.Millisecond), maxLifetime),
	}
	why.From = from.ID
	return s.handOver(spec, all, func(x *Session) { x.kept = &why })
}

// handOver opens a session over members of another one, and moves them there
// with their descendants. note runs in the registry's goroutine.
func (s *server) handOver(spec tracer.SessionSpec, all []tracer.Identity, note func(*Session)) (info tracer.SessionInfo, err error) {
	var refused error
	from := spec.KeptFrom
	err = s.registry.do(func() {
		x, err := s.registry.create(spec)
		if refused = err; err == nil {
			note(x)
			info = x.info
		}
	})
	if err = errors.Join(err, refused); err != nil {
		return info, err
	}
	for _, id := range all[1:] {
		if err := s.kernel.Move(id, from, info.ID); err != nil {
			s.log.Warn().Err(err).Str(logging.KeySession, info.ID.String()).Uint32(logging.KeyPID, id.PID).Msg("process not kept")
		}
	}
	for _, id := range all {
		if _, err := s.follow(from, info.ID, id); err != nil {
			s.log.Error().Err(err).Str(logging.KeySession, info.ID.String()).Msg("descendants not kept")
		}
	}
	s.refresh(info.ID)
	s.registry.askResync(causeMoved)
	return info, nil
}

// losesTerminal names the processes whose terminal goes when members of their
// former session end.
func (s *server) losesTerminal(all []tracer.Identity, from tracer.SessionID) (warnings []string) {
	for _, id := range all {
		st, err := s.proc.Stat(id.PID)
		if err != nil || st.TTY == 0 || uint32(st.SID) == id.PID {
			continue
		}
		sid := uint32(st.SID)
		if e, err := s.kernel.Lookup(sid); err == nil && e.Session == from {
			warnings = append(warnings, fmt.Sprintf("pid %d loses its terminal when pid %d ends", id.PID, sid))
		}
	}
	return warnings
}

// askKeep asks whether a rule keeps a member that has become another program.
func (o *Registry) askKeep(id tracer.Identity) {
	select {
	case o.execs <- id:
	default:
		o.degrade("keep rules were not asked about every program: too many at once")
	}
}

// keepByRule asks the keep rules about each program that members become, and
// after a reload about all members.
func (s *server) keepByRule(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-s.registry.execs:
			s.keepIfRuled(s.rules.policy(), id)
		}
	}
}

// keepRunning asks the keep rules about all members.
func (s *server) keepRunning(p *policy.Policy) {
	if len(p.Keep) == 0 && len(p.Brokers.Shared) == 0 {
		return
	}
	s.shareAgain(p)
	var members []tracer.Identity
	err := s.kernel.Snapshot(0, func(t *tracer.Process) error {
		if t.Session != 0 && !t.Dead && t.Flags&tracer.FlagRoot == 0 {
			members = append(members, t.Identity)
		}
		return nil
	})
	if err != nil {
		s.log.Error().Err(err).Msg("keep rules not asked about the members that run")
	}
	for _, id := range members {
		s.keepIfRuled(p, id)
	}
}

func (s *server) keepIfRuled(p *policy.Policy, id tracer.Identity) {
	e, err := s.kernel.Lookup(id.PID)
	if err != nil || e.Identity != id || e.Session == 0 || e.Flags&tracer.FlagRoot != 0 {
		return
	}
	facts := s.rootFacts(id)
	now := time.Now()
	rule, shared := p.Keeps(facts, now), p.SharedServer(facts)
	if rule == nil && shared == nil {
		return
	}
	if rule != nil {
		s.rules.matched(rule.Name)
	}
	var from tracer.SessionInfo
	_ = s.registry.do(func() {
		if x := s.registry.sessionOf(e.Session); x != nil {
			from = x.info
		}
	})
	if from.ID == 0 || from.Kept || from.State != tracer.StateActive {
		return
	}
	if rule == nil {
		if err := s.share(from, id, p, shared); err != nil && !errors.Is(err, tracer.ErrNotFound) {
			s.log.Error().Err(err).Uint32(logging.KeyPID, id.PID).Str(logging.KeyRule, shared.Name).Msg("shared server not let out of its session")
		}
		return
	}
	info, err := s.keep(from, []tracer.Identity{id}, kept{Reason: rule.Reason, Rule: rule.Name}, rule.Until.Time())
	if err != nil {
		if !errors.Is(err, tracer.ErrNotFound) {
			s.log.Error().Err(err).Uint32(logging.KeyPID, id.PID).Str(logging.KeyRule, rule.Name).Msg("not kept")
		}
		return
	}
	s.log.Info().Str(logging.KeySession, info.ID.String()).Str(logging.KeyRule, rule.Name).Uint32(logging.KeyPID, id.PID).Msg("kept by a rule")
	s.audit.Add(audit.Record{
		Time: now.UTC(), Verb: access.Keep.String(), Decision: audit.Done,
		Reason: fmt.Sprintf("rule %s (%s): %s", rule.Name, p.Origin(rule), rule.Reason),
		Target: &audit.Target{Session: info.ID.String(), PID: int(id.PID), StartNS: api.U64(id.Start)}, Mode: s.rules.mode(),
	})
}
