//go:build linux

package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/plan"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
)

// maxWait bounds ?wait=.
const maxWait = time.Minute

// ends plans ends, ends sessions, and sends their receipts.
type ends struct {
	find     *lookup.Finder
	registry *registry.Registry
	archive  *history.Archive
	access   *access.Access
	enforcer *enforcer.Enforcer
	plans    *plan.Planner
	holdings *holdings.Holdings
	stopping <-chan struct{}
	log      zerolog.Logger
}

// postPlan shows what an end would do. It sends nothing.
func (h *ends) postPlan(w http.ResponseWriter, r *http.Request, c access.Caller, _ *struct{}) error {
	var id tracer.SessionID
	d := api.Plan{Head: api.NewHead("plan"), Processes: []api.PlanProcess{}}
	over := false
	err := h.find.Session(r.PathValue("s"), c, access.Read, func(v registry.View, x *registry.Session) {
		id, over = x.ID(), x.Closed()
		d.Session, d.Name, d.State = id.String(), x.Info().Name, x.State()
		if end := access.Decide(c, access.End, v.Scope(x)); !end.Allow {
			d.RefusedBy = "not permitted: " + end.Why
		}
	})
	if lookup.IsNotFound(err) {
		p, err := h.archive.Find(r.Context(), r.PathValue("s"), c, access.Read, err)
		if err != nil {
			return err
		}
		d.Session, d.Name, d.State = p.Word, p.Name, p.Document().State
		return reply(w, http.StatusOK, d)
	}
	if err != nil {
		return err
	}
	if over {
		return reply(w, http.StatusOK, d)
	}
	if err := h.plans.Make(r.Context(), id, c, &d); err != nil {
		return err
	}
	return reply(w, http.StatusOK, d)
}

// postEnd begins the end of a session. The guards come first, and the caller is noted
// before the first process dies of it; a repeat cannot make the end longer, as the
// kernel sees to that. With a grace of 0 ports and locks are not read before.
func (h *ends) postEnd(w http.ResponseWriter, r *http.Request, c access.Caller, req *api.EndRequest) error {
	grace, err := graceAsked(req)
	if err != nil {
		return err
	}
	if req.Call != "" {
		return api.NewError(api.CodeBadRequest, "call is of a process: end what its agent started in it", "")
	}
	word := r.PathValue("s")
	to, err := lookup.Ask(h.find, word, c, access.End, func(v registry.View, x *registry.Session) (to target) {
		return target{id: x.ID(), begun: x.Info().State != tracer.StateActive, over: x.Closed(), grace: x.Info().Grace}
	})
	if to.over || lookup.IsNotFound(err) {
		return h.receipt(w, r, c, access.End, err)
	}
	if err != nil {
		return err
	}
	if grace < 0 {
		grace = to.grace
	}
	if err := h.enforcer.CheckEnd(to.id, c.ID); err != nil {
		return h.unended(c, access.End, to.id.String(), word, err)
	}
	if !to.begun && grace > 0 {
		h.holdings.CollectBefore(to.id)
	}
	if req.PlanToken != "" {
		if err := h.plans.Check(req.PlanToken, to.id); err != nil {
			h.access.Refused(c, access.End, to.id.String(), err.Error())
			return err
		}
	}
	if err := h.registry.End(to.id, grace, c); err != nil {
		return err
	}
	report, err := h.find.Receipt(to.id.String(), c, access.End)
	if err != nil {
		return err
	}
	return reply(w, http.StatusAccepted, unnamed(report))
}

// unnamed is a receipt that names no process: the reply to an end must not wait for a turn.
func unnamed(report *api.Report) api.Report {
	d := *report
	d.Processes, d.Truncated = []api.Outcome{}, d.Truncated || len(d.Processes) > 0
	return d
}

// receipt sends the receipt of a session as it is now, when it is the caller's turn: it is not made before. An err says that
// memory has no such session.
func (h *ends) receipt(w http.ResponseWriter, r *http.Request, c access.Caller, verb access.Verb, err error) error {
	return inTurn(h.access, func(w http.ResponseWriter, r *http.Request, c access.Caller) error {
		var report *api.Report
		word, status := r.PathValue("s"), http.StatusOK
		if err == nil {
			report, err = h.find.Receipt(word, c, verb)
		}
		if err == nil && report.Verdict == "" && verb == access.Read {
			status = http.StatusAccepted
		}
		if lookup.IsNotFound(err) {
			report, err = h.archive.Report(r.Context(), word, c, verb, err)
		}
		return send(w, status, report, err)
	})(w, r, c)
}

// target is the session of a request, as it was found.
type target struct {
	id    tracer.SessionID
	begun bool // its end
	over  bool
	grace time.Duration
}

// graceAsked is the grace of a request; negative: the session's own.
func graceAsked(req *api.EndRequest) (time.Duration, error) {
	switch {
	case req.Now && req.GraceMS != nil:
		return 0, api.NewError(api.CodeBadRequest, "now and grace_ms cannot be used together", "")
	case req.GraceMS != nil:
		return graceOf(*req.GraceMS)
	case req.Now:
		return 0, nil
	}
	return -1, nil
}

// unended records that a guard refuses an end, and returns why. word is what the caller
// named.
func (h *ends) unended(c access.Caller, v access.Verb, target, word string, err error) error {
	h.log.Warn().Err(err).Str(logging.KeyVerb, v.String()).Str(logging.KeySession, target).
		Uint32(logging.KeyUID, c.UID).Uint32(logging.KeyPID, c.ID.PID).Msg("refused")
	h.access.Refused(c, v, target, err.Error())
	return refused("end "+word, err)
}

// waitOf is how long a request waits for a verdict.
func waitOf(q url.Values) (wait time.Duration, err error) {
	text := q.Get("wait")
	if text == "" {
		return 0, nil
	}
	if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > maxWait {
		return 0, api.NewError(api.CodeBadRequest, fmt.Sprintf("invalid wait %q: must be a duration up to %v", text, maxWait), "")
	}
	return wait, nil
}

// getReport waits for the verdict if the request says so.
func (h *ends) getReport(w http.ResponseWriter, r *http.Request, c access.Caller, q url.Values) error {
	wait, err := waitOf(q)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	err = h.find.Await(waiting, r.PathValue("s"), c, h.stopping)
	if r.Context().Err() != nil {
		return nil // the caller has gone
	}
	if err != nil && !lookup.IsNotFound(err) {
		return err
	}
	return h.receipt(w, r, c, access.Read, err)
}
