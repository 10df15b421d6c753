//go:build linux

package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// sessions answers about sessions, live and ended: with documents, events and the live picture.
type sessions Options

func (h *sessions) getSessions(w http.ResponseWriter, r *http.Request, c access.Caller, q url.Values) error {
	state := cmp.Or(q.Get("state"), "live")
	if !slices.Contains([]string{"live", "ended", "all", "idle"}, state) {
		return api.NewError(api.CodeBadRequest, fmt.Sprintf("unknown state %q", state),
			"known: live, ended, all, idle")
	}
	if state == "idle" {
		if err := h.lookForWork(r.Context(), c); err != nil {
			return err
		}
	}
	d := api.Sessions{Head: api.NewHead("sessions"), Items: []api.Session{}, Halt: h.Status.Halt()}
	err := h.Registry.ReadFor(c, func(v registry.View) {
		for _, x := range v.Sorted() {
			if x.Closed() || state == "ended" ||
				q.Get("name") != "" && x.Info().Name != q.Get("name") ||
				!access.Decide(c, access.Read, v.Scope(x)).Allow {
				continue
			}
			v.Refresh(x)
			item := v.Document(x, c)
			if state == "idle" && item.IdleSeconds == 0 {
				continue
			}
			item.Head = api.Head{Kind: "session"}
			d.Items = append(d.Items, item)
		}
	})
	if err == nil && (state == "ended" || state == "all") {
		err = h.Archive.AddEnded(r.Context(), &d, q.Get("name"), c)
	}
	return send(w, http.StatusOK, d, err)
}

// lookForWork looks at what the sessions of a caller that may be idle use now, and at the clients of
// their ports.
func (h *sessions) lookForWork(ctx context.Context, c access.Caller) error {
	if err := h.Registry.Fresh(); err != nil {
		return err
	}
	var idle []tracer.SessionID
	err := h.Registry.ReadFor(c, func(v registry.View) {
		for x := range v.Sessions() {
			if !x.Closed() && access.Decide(c, access.Read, v.Scope(x)).Allow && v.Record(x).Used.Idle > 0 {
				idle = append(idle, x.ID())
			}
		}
	})
	for _, id := range idle {
		h.Holdings.LookForClients(ctx, id)
	}
	return err
}

func (h *sessions) getSession(w http.ResponseWriter, r *http.Request, c access.Caller, _ url.Values) error {
	var saved tracer.SessionID
	d, err := lookup.Ask(h.Find, r.PathValue("s"), c, access.Read, func(v registry.View, x *registry.Session) api.Session {
		saved = h.saved(v, x)
		v.Refresh(x)
		d := v.Document(x, c)
		d.Head = api.NewHead("session")
		return d
	})
	p, err := h.past(r, saved, c, err)
	if p != nil {
		return reply(w, http.StatusOK, p.Document())
	}
	return send(w, http.StatusOK, d, err)
}

// saved is the id of a session that the history has, 0 if it has not ended, or is to be written.
func (h *sessions) saved(v registry.View, x *registry.Session) tracer.SessionID {
	if !h.Archive.Has(v, x) {
		return 0
	}
	return x.ID()
}

// past is the ended session that a request names, if the history has it: memory has forgotten it,
// says err, or some of its processes, which is why a saved session is read from the history. It is
// nil if memory's answer is to be sent.
func (h *sessions) past(r *http.Request, saved tracer.SessionID, c access.Caller,
	err error) (*history.Past, error) {
	switch {
	case api.IsNotFound(err):
		return h.Archive.Find(r.Context(), r.PathValue("s"), c, access.Read, err)
	case err == nil && saved != 0:
		return h.Archive.Session(r.Context(), saved, c), nil
	}
	return nil, err
}

// getTree sends a session's processes, nested sessions included. Of an ended session it
// sends all that is remembered.
func (h *sessions) getTree(w http.ResponseWriter, r *http.Request, c access.Caller,
	q url.Values) (err error) {
	dead := cmp.Or(q.Get("dead"), "ancestors")
	if dead != "ancestors" && dead != "all" {
		return api.NewError(api.CodeBadRequest, fmt.Sprintf("unknown dead %q", dead), "known: ancestors, all")
	}
	d := api.Tree{Head: api.NewHead("tree")}
	var saved tracer.SessionID
	err = h.Find.Session(r.PathValue("s"), c, access.Read, func(v registry.View, x *registry.Session) {
		saved = h.saved(v, x)
		v.Refresh(x)
		d.Session = new(v.Document(x, c))
		d.Roots, d.Nodes = v.Encoder().Tree(v.Graph().Tree(dead == "all" ||
			x.Closed(), v.Family(x.ID())...), c)
	})
	p, err := h.past(r, saved, c, err)
	if err != nil {
		return err
	}
	if p != nil {
		was, err := h.Archive.Tree(r.Context(), p, c)
		if err != nil {
			return err
		}
		d = *was
	}
	var living []*api.Process
	for i := range d.Nodes {
		if p == nil && d.Nodes[i].State != api.StateExited {
			living = append(living, &d.Nodes[i].Process)
		}
	}
	h.Find.Enrich(c, living...)
	return reply(w, http.StatusOK, d)
}
