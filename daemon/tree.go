//go:build linux

package daemon

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// getTree gives a session's processes, nested sessions included. Of a session
// that is over it gives all that is remembered.
func (s *server) getTree(w http.ResponseWriter, r *http.Request, c caller) error {
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
		if at, _, err = s.identity(text, c); err != nil {
			return err
		}
	}
	d := api.Tree{Head: head("tree"), Roots: []api.Ref{}, Nodes: []api.Node{}}
	found := true
	err = s.withSession(r.PathValue("s"), c, verbRead, func(x *session) {
		s.owner.refresh(x)
		doc := s.owner.session(x, c)
		d.Session = &doc
		rows := s.owner.graph.Tree(dead == "all" || x.closed, s.owner.family(x.info.ID)...)
		if !at.IsZero() {
			rows = subtree(rows, at)
			found = len(rows) > 0
		}
		s.owner.grow(&d, rows, c)
	})
	if unremembered(err) {
		p, err := s.past(r.Context(), r.PathValue("s"), c, verbRead, err)
		if err != nil {
			return err
		}
		d, err := s.pastTree(r.Context(), p, at, c)
		if err != nil {
			return err
		}
		return reply(w, http.StatusOK, d)
	}
	if err != nil {
		return err
	}
	if !found {
		return notIn(at, r.PathValue("s"))
	}
	ps := make([]*api.Process, 0, len(d.Nodes))
	for i := range d.Nodes {
		if d.Nodes[i].State != api.StateExited {
			ps = append(ps, &d.Nodes[i].Process)
		}
	}
	s.enrich(c, ps...)
	return reply(w, http.StatusOK, d)
}

func notIn(id tracer.Identity, session string) error {
	return api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d: not in session %s", id.PID, session), "")
}

// subtree cuts rows, which are in preorder, to those at and below id.
func subtree(rows []lineage.Branch, id lineage.ID) []lineage.Branch {
	i := slices.IndexFunc(rows, func(b lineage.Branch) bool { return b.ID == id })
	if i < 0 {
		return nil
	}
	rows = rows[i:]
	depth := rows[0].Depth
	if end := slices.IndexFunc(rows[1:], func(b lineage.Branch) bool { return b.Depth <= depth }); end >= 0 {
		rows = rows[:end+1]
	}
	rows[0].Creator = lineage.ID{}
	return rows
}

// grow makes nodes of rows.
func (o *owner) grow(d *api.Tree, rows []lineage.Branch, c caller) {
	index := make(map[lineage.ID]int, len(rows))
	for _, b := range rows {
		n, ok := o.graph.Node(b.ID)
		if !ok {
			continue
		}
		index[b.ID] = len(d.Nodes)
		d.Nodes = append(d.Nodes, api.Node{Process: o.process(&n, c)})
		ref := enforcer.Ref(b.ID)
		if up, ok := index[b.Creator]; ok && b.Creator.PID != 0 {
			d.Nodes[up].Children = append(d.Nodes[up].Children, ref)
		} else {
			d.Roots = append(d.Roots, ref)
		}
	}
}
