package document

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Why describes how a process came to its session: every edge from the process to the
// session's root. s may be nil: then the session's document is left out.
func (e Encoder) Why(n *lineage.Node, s *Session, r Reader) api.Why {
	d := api.Why{Process: e.Process(n, r)}
	if s != nil {
		d.Session = new(e.Session(s, r))
	}
	for _, edge := range e.Graph.Ancestry(n.ID) {
		d.Edges = append(d.Edges, e.edge(&edge, r))
		if d.Delegated == nil && s != nil {
			d.Delegated = e.broughtBy(&s.Work, edge.Child, r)
		}
	}
	return d
}

func (e Encoder) edge(edge *lineage.Edge, r Reader) api.Edge {
	d := api.Edge{Kind: edge.Kind.String(), Time: e.Clock.Wall(edge.Time),
		Child: api.Process{Ref: Ref(edge.Child)}}
	if v := evidence(edge.Evidence, tracer.Source(edge.Source)); v != nil {
		d.Evidence = *v
	}
	uid := uint32(0)
	if n, ok := e.Graph.Node(edge.Child); ok {
		d.Child = e.Process(&n, r)
		uid = n.UID
		for _, m := range n.Reparents {
			d.Reparented = append(d.Reparented, api.Reparents{Time: e.Clock.Wall(m.Time),
				From: RefOrNil(m.From), To: RefOrNil(m.To)})
		}
	}
	if edge.Creator.PID == 0 {
		return d
	}
	d.Creator = &api.EdgeEnd{Ref: Ref(edge.Creator), Comm: edge.CreatorComm}
	n, known := e.Graph.Node(edge.Creator)
	if known {
		d.Creator.Alive = n.State == lineage.Live
		d.Creator.Exited = e.Clock.Wall(n.Exited)
		if !n.Ghost {
			uid = n.UID
		}
	}
	if !known || n.Ghost {
		// The root's creator is outside the session: only the kernel knows it.
		now, err := e.Kernel.Identify(edge.Creator.PID)
		d.Creator.Alive = err == nil && now == edge.Creator
	}
	d.Creator.Argv = r.Argv(uid, edge.CreatorArgv)
	return d
}
