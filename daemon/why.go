//go:build linux

package daemon

import (
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/tracer"
)

// getWhy tells whose a process is: every edge from it to the root of its
// session. Of a port or a path it tells the same of everybody who holds it.
func (s *server) getWhy(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	q, err := query(r, "ref", "port", "proto", "path", "device", "inode")
	if err != nil {
		return err
	}
	switch {
	case q.Has("port") && !q.Has("ref") && !q.Has("path"):
		return s.whyPort(w, r, c, q)
	case q.Has("path") && !q.Has("ref") && !q.Has("port"):
		return s.whyPath(w, r, c, q)
	case len(q) != 1:
		return api.NewError(api.CodeBadRequest, "want one of ref, port and path", "")
	}
	id, live, err := s.find.Identity(q.Get("ref"), c)
	if lookup.IsForgotten(err) {
		d, err := s.archive.Why(r.Context(), q.Get("ref"), c, err)
		if err != nil {
			return err
		}
		d.Head = api.NewHead("why")
		return reply(w, http.StatusOK, d)
	}
	if err != nil {
		return err
	}
	p, err := s.find.Process(id, live, c)
	if err != nil {
		return err
	}
	d, err := s.find.Why(id, live, p, c)
	if err != nil {
		return err
	}
	if live {
		ctx, done, err := s.find.Collect(r.Context())
		if err != nil {
			return err
		}
		d.Holds = document.Holds(s.registry.Holds().Of(ctx, []tracer.Identity{id}), nil)
		done()
	}
	d.Head = api.NewHead("why")
	return reply(w, http.StatusOK, d)
}
