//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	maxKept   = 256 // processes of one request
	maxReason = 1000
)

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
		return lookup.Foreign()
	case len(req.Refs) == 0 || len(req.Refs) > maxKept:
		return bad("refs: want 1 to %d processes", maxKept)
	case strings.TrimSpace(req.Reason) == "" || len(req.Reason) > maxReason:
		return bad("reason: want a text of at most %d bytes", maxReason)
	case !req.Until.After(now):
		return bad("until %s: want a time to come", req.Until.Format(time.RFC3339))
	}
	if c.Member != 0 {
		return s.keepByRule(w, &req, c)
	}
	var all []tracer.Identity
	var from tracer.SessionInfo
	for _, ref := range req.Refs {
		if ref.StartNS == 0 {
			return api.NewError(api.CodeBadRequest, fmt.Sprintf("keep %v: want PID@START_NS", ref), `"lineage tree -o name" prints it`)
		}
		id, live, err := s.find.Identity(ref.String(), c)
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
	info, err := s.steward.Keep(from, all, rules.Kept{Reason: req.Reason, By: by}, req.Until)
	if err != nil {
		return keepError(all[0], err)
	}
	return s.replyKept(w, info.ID, c, s.losesTerminal(all, from.ID), all[0])
}

// replyKept sends the session that processes were handed over to.
func (s *server) replyKept(w http.ResponseWriter, id tracer.SessionID, c access.Caller, warnings []string, first tracer.Identity) error {
	var d api.Session
	if err := s.registry.Read(func(v registry.View) {
		if x := v.Session(id); x != nil {
			d = v.Document(x, c)
		}
	}); err != nil {
		return err
	}
	d.Warnings = warnings
	s.log.Info().Str(logging.KeySession, d.ID).Uint32(logging.KeyUID, c.UID).Uint32(logging.KeyPID, first.PID).Msg("process kept")
	s.access.Done(c, access.Keep, d.ID)
	d.Head = api.NewHead("session")
	return reply(w, http.StatusCreated, d)
}

// keepByRule answers a member. It may not decide what outlives its session; a keep
// rule of the policy may, and says until when. Where none matches, the refusal says
// which rule is missing.
func (s *server) keepByRule(w http.ResponseWriter, req *api.KeepRequest, c access.Caller) error {
	if len(req.Refs) != 1 || req.Refs[0].StartNS == 0 {
		return api.NewError(api.CodeBadRequest, "refs: a member names one process, as PID@START_NS", "")
	}
	id, live, err := s.find.Identity(req.Refs[0].String(), c)
	if err != nil {
		return err
	}
	_, scope, err := s.find.Look(id, live, c)
	if err != nil {
		return err
	}
	refused := access.Decide(c, access.Keep, scope)
	if !access.Decide(c, access.Read, scope).Allow || !live {
		return s.access.Refuse(c, access.Keep, fmt.Sprintf("pid %d", id.PID), refused)
	}
	facts := s.steward.RootFacts(id)
	rule := s.rules.Policy().Keeps(facts, time.Now())
	if rule == nil {
		exe := "/PATH"
		if facts != nil && facts.Exe != "" {
			exe = facts.Exe
		}
		refused.Why += fmt.Sprintf(", and no keep rule of the policy matches exe %q", exe)
		refused.Hint = fmt.Sprintf("ask an operator to add to the policy: keep: [{name: NAME, match: {exe: %q}, reason: %q, until: DATE}]", exe, req.Reason)
		return s.access.Refuse(c, access.Keep, fmt.Sprintf("pid %d", id.PID), refused)
	}
	from, err := s.kernel.Session(scope.Chain[0])
	if err != nil {
		return err
	}
	why := rules.Kept{Reason: rule.Reason, Rule: rule.Name, By: &api.Caller{UID: int(c.UID), PID: int(c.ID.PID), Comm: c.Comm}}
	info, err := s.steward.Keep(from, []tracer.Identity{id}, why, rule.Until.Time())
	if err != nil {
		return keepError(id, err)
	}
	return s.replyKept(w, info.ID, c, s.losesTerminal([]tracer.Identity{id}, from.ID), id)
}

// keepable finds the session that a process would be handed over from.
func (s *server) keepable(id tracer.Identity, live bool, c access.Caller) (info tracer.SessionInfo, err error) {
	e, lerr := s.kernel.Lookup(id.PID)
	member := live && lerr == nil && e.Identity == id && e.Session != 0
	d := access.Decide(c, access.Keep, access.Scope{UID: c.UID})
	err = s.registry.Read(func(v registry.View) {
		if x := v.Ask(e.Session); member && x != nil {
			info = x.Info()
		}
	})
	if d.Allow && info.ID != 0 {
		d = s.find.DecideChain(c, access.Keep, info.ID) // it will be nested in none of these
	}
	switch {
	case err != nil:
		return info, err
	case !d.Allow:
		return info, s.access.Refuse(c, access.Keep, fmt.Sprintf("pid %d", id.PID), d)
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
