//go:build linux

package httpapi

import (
	"net/http"
	"net/url"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// processes describes processes, why they belong to a session, and what was left behind.
type processes Options

func (h *processes) getProcess(w http.ResponseWriter, r *http.Request, c access.Caller, _ url.Values) error {
	_, _, p, d, err := h.named(r, r.PathValue("ref"), c)
	if d != nil {
		p = &d.Process
	}
	if err != nil {
		return err
	}
	p.Head = api.NewHead("process")
	return reply(w, http.StatusOK, p)
}

// named is the process that a text names, by memory, or else why it belongs to a session, by the history.
func (h *processes) named(r *http.Request, text string, c access.Caller) (id tracer.Identity,
	live bool, p *api.Process, past *api.Why, err error) {
	id, live, err = h.Find.Identity(text, c)
	if past, err = h.past(r, text, id, live, c, err); past == nil && err == nil {
		p, err = h.Find.Process(id, live, c)
	}
	return id, live, p, past, err
}

// past answers for a process of an ended session, if the history has it: memory has forgotten it,
// says err, or may forget it. It is nil if memory's answer is to be sent.
func (h *processes) past(r *http.Request, text string, id tracer.Identity, live bool,
	c access.Caller, err error) (*api.Why, error) {
	switch {
	case lookup.IsForgotten(err):
		return h.Archive.Why(r.Context(), text, c, err)
	case err != nil || live:
		return nil, err
	}
	saved, err := registry.Ask(h.Registry, func(v registry.View) bool {
		n, ok := v.Graph().Node(id)
		x := v.Session(n.Session)
		return ok && x != nil && h.Archive.Has(v, x)
	})
	if err != nil || !saved {
		return nil, err
	}
	return h.Archive.Why(r.Context(), document.Ref(id).String(), c, nil)
}

// getWhy shows to which session a process belongs: every edge from it to the root. Of a
// port or a path it shows that for each process that holds it.
func (h *processes) getWhy(w http.ResponseWriter, r *http.Request, c access.Caller, q url.Values) error {
	switch {
	case q.Has("port") && !q.Has("ref") && !q.Has("path"):
		return h.whyPort(w, r, c, q)
	case q.Has("path") && !q.Has("ref") && !q.Has("port"):
		return h.whyPath(w, r, c, q)
	case len(q) != 1:
		return api.NewError(api.CodeBadRequest, "give one of ref, port and path", "")
	}
	id, live, p, found, err := h.named(r, q.Get("ref"), c)
	if lookup.IsForgotten(err) {
		if p = h.Find.Death(q.Get("ref"), api.Ref{}, c); p != nil {
			return reply(w, http.StatusOK, api.Why{Head: api.NewHead("why"), Process: *p})
		}
	}
	if err != nil {
		return err
	}
	if found != nil {
		found.Head = api.NewHead("why")
		found.Other = h.Find.Death(q.Get("ref"), found.Process.Ref, c)
		return reply(w, http.StatusOK, found)
	}
	d, err := h.Find.Why(id, live, p, c)
	if err != nil {
		return err
	}
	d.Other = h.Find.Death(q.Get("ref"), p.Ref, c)
	if live {
		ctx, done, err := h.Find.Collect(r.Context())
		if err != nil {
			return err
		}
		held := h.Holdings.Reader().Of(ctx, []tracer.Identity{id})
		d.Holds = held.Document(nil)
		done()
	}
	d.Head = api.NewHead("why")
	return reply(w, http.StatusOK, d)
}
