//go:build linux

package daemon

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// getTree gives a session's processes, nested sessions included. Of a session
// that is over it gives all that is remembered.
func (s *server) getTree(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	q, err := query(r, "dead", "at")
	if err != nil {
		return err
	}
	dead := cmp.Or(q.Get("dead"), "ancestors")
	if dead != "ancestors" && dead != "all" {
		return api.NewError(api.CodeBadRequest, fmt.Sprintf("unknown dead %q", dead), "known: ancestors, all")
	}
	var at tracer.Identity
	if text := q.Get("at"); text != "" {
		if at, _, err = s.find.Identity(text, c); err != nil {
			return err
		}
	}
	d := api.Tree{Head: api.NewHead("tree")}
	err = s.find.Session(r.PathValue("s"), c, access.Read, func(v registry.View, x *registry.Session) {
		v.Refresh(x)
		doc := v.Document(x, c)
		d.Session = &doc
		rows := v.Graph().Tree(dead == "all" || x.Closed(), v.Family(x.ID())...)
		if !at.IsZero() {
			rows = document.Subtree(rows, at)
		}
		d.Roots, d.Nodes = v.Encoder().Tree(rows, c)
	})
	if lookup.IsNotFound(err) {
		p, err := s.archive.Find(r.Context(), r.PathValue("s"), c, access.Read, err)
		if err != nil {
			return err
		}
		d, err := s.archive.Tree(r.Context(), p, at, c)
		if err != nil {
			return err
		}
		if !at.IsZero() && len(d.Nodes) == 0 {
			return notIn(at, p.Word)
		}
		return reply(w, http.StatusOK, d)
	}
	if err != nil {
		return err
	}
	if !at.IsZero() && len(d.Nodes) == 0 {
		return notIn(at, r.PathValue("s"))
	}
	ps := make([]*api.Process, 0, len(d.Nodes))
	for i := range d.Nodes {
		if d.Nodes[i].State != api.StateExited {
			ps = append(ps, &d.Nodes[i].Process)
		}
	}
	s.find.Enrich(c, ps...)
	return reply(w, http.StatusOK, d)
}

func notIn(id tracer.Identity, session string) error {
	return api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d: not in session %s", id.PID, session), "")
}
