//go:build linux

package daemon

import (
	"context"
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// getWhy tells whose a process is: every edge from it to the root of its
// session. Of a port or a path it tells the same of everybody who holds it.
func (s *server) getWhy(w http.ResponseWriter, r *http.Request, c caller) error {
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
	id, live, err := s.identity(q.Get("ref"), c)
	if forgotten(err) {
		d, err := s.pastWhy(r.Context(), q.Get("ref"), c, err)
		if err != nil {
			return err
		}
		d.Head = head("why")
		return reply(w, http.StatusOK, d)
	}
	if err != nil {
		return err
	}
	p, err := s.describe(id, live, c)
	if err != nil {
		return err
	}
	d, err := s.why(id, live, p, c)
	if err != nil {
		return err
	}
	if live {
		done, err := s.readProcfs(r.Context())
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), planCollect)
		d.Holds = holdsOf(s.holds.Of(ctx, []tracer.Identity{id}), nil)
		cancel()
		done()
	}
	d.Head = head("why")
	return reply(w, http.StatusOK, d)
}

// why makes the answer about one process.
func (s *server) why(id tracer.Identity, live bool, p *api.Process, c caller) (api.Why, error) {
	d := api.Why{Process: *p}
	err := s.owner.read(c, func() {
		n, ok := s.owner.graph.Node(id)
		if !ok || n.Session == 0 {
			return
		}
		if x := s.owner.sessions[n.Session]; x != nil {
			s.owner.refresh(x)
			doc := s.owner.session(x, c)
			d.Session = &doc
		}
		for _, e := range s.owner.graph.Ancestry(n.ID) {
			d.Edges = append(d.Edges, s.owner.edge(&e, c))
			if d.Brokered == nil {
				d.Brokered = s.owner.broughtBy(e.Child, n.Session, c)
			}
		}
	})
	if err == nil && live && d.Process.Parent != nil {
		d.Parent = s.parent(d.Process.Parent, c)
	}
	return d, err
}

// parent describes the kernel's parent, which may belong to somebody else: its
// comm is shown, as ps shows it, and no more.
func (s *server) parent(ref *api.Ref, c caller) *api.Process {
	p := &api.Process{Ref: *ref}
	st, err := s.proc.Status(uint32(ref.PID))
	if err != nil {
		return p
	}
	now, err := s.kernel.Identify(uint32(ref.PID))
	if err == nil && enforcer.Ref(now) == *ref || ref.PID == 1 { // nobody else is ever PID 1
		p.Comm, p.State, p.UID = st.Name, api.StateLive, intPtr(st.UIDs[1])
	}
	return p
}

func (o *owner) edge(e *lineage.Edge, c caller) api.Edge {
	d := api.Edge{Kind: e.Kind.String(), Time: o.clock.wall(e.Time), Child: api.Process{Ref: *refOf(e.Child)}}
	if v := evidence(e.Evidence, e.Source); v != nil {
		d.Evidence = *v
	}
	uid := uint32(0)
	if n, ok := o.graph.Node(e.Child); ok {
		d.Child = o.process(&n, c)
		uid = n.UID
		for _, m := range n.Reparents {
			d.Reparented = append(d.Reparented, api.Reparents{Time: o.clock.wall(m.Time), From: refOf(m.From), To: refOf(m.To)})
		}
	}
	if e.Creator.PID == 0 {
		return d
	}
	d.Creator = &api.EdgeEnd{Ref: *refOf(e.Creator), Comm: e.CreatorComm}
	n, known := o.graph.Node(e.Creator)
	if known {
		d.Creator.Alive = n.State == lineage.Live
		d.Creator.Exited = o.clock.wall(n.Exited)
		if !n.Ghost {
			uid = n.UID
		}
	}
	if !known || n.Ghost {
		// The root's creator is no member: only the kernel knows it.
		now, err := o.kernel.Identify(e.Creator.PID)
		d.Creator.Alive = err == nil && now == e.Creator
	}
	if c.mayReadArgv(uid) {
		d.Creator.Argv = e.CreatorArgv
	}
	return d
}
