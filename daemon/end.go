//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/audit"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
)

// postEnd begins the end of a session. The guards come first, and who asks is
// noted before the first process dies of it; the kernel keeps repeats from making
// it longer. With a grace of 0 nothing else comes before the kernel is asked.
func (s *server) postEnd(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	var req api.EndRequest
	if err := s.decode(w, r, &req); err != nil {
		return err
	}
	grace, err := graceAsked(&req)
	if err != nil {
		return err
	}
	word := r.PathValue("s")
	var id tracer.SessionID
	var report *api.Report
	begun := false
	err = s.find.Session(word, c, access.End, func(v registry.View, x *registry.Session) {
		id, begun = x.ID(), x.Info().State != tracer.StateActive
		if grace < 0 {
			grace = x.Info().Grace
		}
		if x.Closed() {
			report = v.Report(x, c)
		}
	})
	if lookup.IsNotFound(err) {
		report, err = s.archive.Report(r.Context(), word, c, access.End, err)
	}
	if err != nil {
		return err
	}
	if report != nil {
		return reply(w, http.StatusOK, report)
	}
	if err := s.enforcer.CheckEnd(id, c.ID); err != nil {
		return s.unended(c, access.End, id.String(), word, err)
	}
	if !begun && grace > 0 {
		s.registry.CollectBefore(id)
	}
	if req.PlanToken != "" {
		if err := s.plans.Check(req.PlanToken, id); err != nil {
			s.access.Refused(c, access.End, id.String(), err.Error())
			return err
		}
	}
	if err := s.beginEnd(id, grace, c); err != nil {
		return err
	}
	err = s.find.Session(id.String(), c, access.End, func(v registry.View, x *registry.Session) {
		v.Refresh(x)
		report = v.Report(x, c)
	})
	if err != nil {
		return err
	}
	return reply(w, http.StatusAccepted, report)
}

// graceAsked is the grace of a request; negative: the session's own.
func graceAsked(req *api.EndRequest) (time.Duration, error) {
	switch {
	case req.Now && req.GraceMS != nil:
		return 0, api.NewError(api.CodeBadRequest, "now and grace_ms exclude each other", "")
	case req.GraceMS != nil:
		return graceOf(*req.GraceMS)
	case req.Now:
		return 0, nil
	}
	return -1, nil
}

// unended records that a guard refuses an end, and gives why. word is what the caller
// named.
func (s *server) unended(c access.Caller, v access.Verb, target, word string, err error) error {
	s.log.Warn().Err(err).Str(logging.KeyVerb, v.String()).Str(logging.KeySession, target).
		Uint32(logging.KeyUID, c.UID).Uint32(logging.KeyPID, c.ID.PID).Msg("refused")
	s.access.Refused(c, v, target, err.Error())
	var refusal *enforcer.Refusal
	if errors.As(err, &refusal) {
		e := refusalError(refusal)
		e.Message = fmt.Sprintf("end %s: %s", word, e.Message)
		return e
	}
	return err
}

// beginEnd notes who asked, and has the kernel begin.
func (s *server) beginEnd(id tracer.SessionID, grace time.Duration, c access.Caller) error {
	s.log.Info().Str(logging.KeyVerb, access.End.String()).Str(logging.KeySession, id.String()).Int64(logging.KeyGrace, grace.Milliseconds()).
		Uint32(logging.KeyUID, c.UID).Uint32(logging.KeyPID, c.ID.PID).Msg("ending")
	err := s.registry.Update(func(t registry.Tx) {
		if x := t.Session(id); x != nil {
			t.Asked(x, &api.Caller{UID: int(c.UID), PID: int(c.ID.PID), Comm: c.Comm}, c.Audited())
		}
	})
	if err != nil {
		return err
	}
	if err := s.enforcer.End(id, tracer.CauseEnd, grace); err != nil && !errors.Is(err, tracer.ErrNotFound) {
		return err
	}
	return nil
}

// getReport waits, if it is asked to, until there is a verdict.
func (s *server) getReport(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	q, err := query(r, "wait")
	if err != nil {
		return err
	}
	wait := time.Duration(0)
	if text := q.Get("wait"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > maxWait {
			return api.NewError(api.CodeBadRequest, fmt.Sprintf("wait %q: want a duration up to %v", text, maxWait), "")
		}
	}
	var over <-chan struct{}
	var id tracer.SessionID
	err = s.find.Session(r.PathValue("s"), c, access.Read, func(v registry.View, x *registry.Session) { over, id = x.Over(), x.ID() })
	if lookup.IsNotFound(err) {
		report, err := s.archive.Report(r.Context(), r.PathValue("s"), c, access.Read, err)
		if err != nil {
			return err
		}
		return reply(w, http.StatusOK, report)
	}
	if err != nil {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
	case <-s.stopping:
	case <-r.Context().Done():
		return nil
	}
	var report *api.Report
	err = s.find.Session(id.String(), c, access.Read, func(v registry.View, x *registry.Session) {
		v.Refresh(x)
		report = v.Report(x, c)
	})
	if err != nil {
		return err
	}
	status := http.StatusAccepted
	if report.Verdict != "" {
		status = http.StatusOK
	}
	return reply(w, status, report)
}

// recorded records an end, when it has a verdict.
func (s *server) recorded(_ registry.View, x *registry.Session) {
	rec := audit.Record{
		Time: time.Now().UTC(), Verb: access.End.String(), Decision: audit.Done, Reason: x.Receipt().EndReason,
		Target: &audit.Target{Session: x.Receipt().Session, PID: int(x.Info().Root.PID), StartNS: api.U64(x.Info().Root.Start)},
		Mode:   s.rules.Mode(), Report: x.Receipt(),
	}
	if x.Info().Cause == tracer.CauseEnd {
		rec.Caller = x.EndCaller()
	}
	s.audit.Add(rec)
}
