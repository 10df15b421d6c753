//go:build linux

package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/acts"
)

const maxWait = time.Minute

// acting answers the requests for acts, and sends receipts.
type acting Options

// postPlan shows what an end would do. It sends nothing.
func (h *acting) postPlan(w http.ResponseWriter, r *http.Request, c access.Caller, _ *struct{}) error {
	d, err := h.Acts.PlanSession(r.Context(), r.PathValue("s"), c)
	if api.IsNotFound(err) {
		p, err := h.Archive.Find(r.Context(), r.PathValue("s"), c, access.Read, err)
		if err != nil {
			return err
		}
		d.Session, d.Name, d.State = p.Word, p.Name, p.Document().State
		return reply(w, http.StatusOK, d)
	}
	return send(w, http.StatusOK, d, err)
}

func (h *acting) postBranchPlan(w http.ResponseWriter, r *http.Request,
	c access.Caller, req *api.PlanRequest) error {
	d, err := h.Acts.PlanBranch(r.Context(), r.PathValue("ref"), req.Call, c)
	return send(w, http.StatusOK, d, err)
}

// postEnd begins the end of a session. A repeat cannot make the end longer, as the kernel sees to that.
func (h *acting) postEnd(w http.ResponseWriter, r *http.Request, c access.Caller, req *api.EndRequest) error {
	order, err := orderOf(req, c)
	if err != nil {
		return err
	}
	if req.Call != "" {
		return api.NewError(api.CodeBadRequest,
			"call is of a process: end what its agent started in it", "")
	}
	report, err := h.Acts.EndSession(r.PathValue("s"), order)
	if report == nil && (err == nil || api.IsNotFound(err)) {
		return h.receipt(w, r, c, access.End, err)
	}
	return send(w, http.StatusAccepted, report, err)
}

func (h *acting) postBranchEnd(w http.ResponseWriter, r *http.Request,
	c access.Caller, req *api.EndRequest) error {
	order, err := orderOf(req, c)
	if err != nil {
		return err
	}
	report, err := h.Acts.EndBranch(r.Context(), r.PathValue("ref"), req.Call, order)
	if r.Context().Err() != nil {
		return nil // the caller has gone
	}
	return send(w, http.StatusAccepted, report, err)
}

// receipt sends the receipt of a session as it is now, when it is the caller's turn: it is not made before. An err says that
// memory has no such session.
func (h *acting) receipt(w http.ResponseWriter, r *http.Request, c access.Caller,
	verb access.Verb, err error) error {
	return inTurn(h.Access, func(w http.ResponseWriter, r *http.Request, c access.Caller) error {
		var report *api.Report
		word, status := r.PathValue("s"), http.StatusOK
		if err == nil {
			report, err = h.Find.Receipt(word, c, verb)
		}
		if err == nil && report.Verdict == "" && verb == access.Read {
			status = http.StatusAccepted
		}
		if api.IsNotFound(err) {
			report, err = h.Archive.Report(r.Context(), word, c, verb, err)
		}
		return send(w, status, report, err)
	})(w, r, c)
}

func orderOf(req *api.EndRequest, c access.Caller) (o *acts.Order, err error) {
	o = &acts.Order{Caller: c, Plan: req.PlanToken, Grace: -1}
	switch {
	case req.Now && req.GraceMS != nil:
		err = api.NewError(api.CodeBadRequest, "now and grace_ms cannot be used together", "")
	case req.GraceMS != nil:
		o.Grace, err = graceOf(*req.GraceMS)
	case req.Now:
		o.Grace = 0
	}
	return o, err
}

// waitOf is how long a request waits for a verdict.
func waitOf(q url.Values) (wait time.Duration, err error) {
	text := q.Get("wait")
	if text == "" {
		return 0, nil
	}
	if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > maxWait {
		return 0, api.Errorf(api.CodeBadRequest, "invalid wait %q: must be a duration up to %v",
			text, maxWait)
	}
	return wait, nil
}

// getReport waits for the verdict if the request says so.
func (h *acting) getReport(w http.ResponseWriter, r *http.Request, c access.Caller, q url.Values) error {
	wait, err := waitOf(q)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	err = h.Find.Await(waiting, r.PathValue("s"), c, h.Stopping)
	if r.Context().Err() != nil {
		return nil // the caller has gone
	}
	if err != nil && !api.IsNotFound(err) {
		return err
	}
	return h.receipt(w, r, c, access.Read, err)
}
