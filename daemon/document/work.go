package document

import (
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Work is what a session has handed to other daemons.
type Work struct {
	Open  []Request // no process was found for these
	Found []Found
	// Brought has the processes of this session that no member forked: the other
	// session's Found if this one holds its work, else its own.
	Brought []Found
}

type Request struct {
	Broker string
	Client lineage.ID
	Comm   string
	UID    uint32
	Argv   []string
	// ArgvTruncated: Argv is only the beginning.
	ArgvTruncated bool
	Time          uint64 // boottime, ns
	Over          bool   // no process will be found for it any longer
	Unsure        bool   // more than one command, or more than one request, fits
}

// Found is a process that another daemon started for a session.
type Found struct {
	Process  lineage.ID
	Comm     string
	Source   tracer.Source
	Request  *Request         // nil: no request was seen
	Session  tracer.SessionID // that the process was entered for
	Ends     bool             // it ends with the session for which it works
	Observed bool             // it would end, if the policy were enforced
}

// Delegated lists what a session has handed to other daemons, as r may read it.
func (e Encoder) Delegated(w *Work, r Reader) (all []api.Delegated) {
	for i := range w.Open {
		b := e.request(&w.Open[i], r)
		b.State = "pending"
		switch q := &w.Open[i]; {
		case q.Unsure:
			b.State = "ambiguous"
		case q.Over:
			b.State = "unattributed"
		}
		all = append(all, b)
	}
	for i := range w.Found {
		all = append(all, e.found(&w.Found[i], r))
	}
	return all
}

func (e Encoder) request(q *Request, r Reader) api.Delegated {
	asked := api.Process{Ref: Ref(q.Client), Comm: q.Comm, UID: new(int(q.UID)),
		Argv: r.Argv(q.UID, q.Argv)}
	asked.ArgvTruncated = q.ArgvTruncated && asked.Argv != nil
	return api.Delegated{Broker: q.Broker, Asked: &asked, Time: e.Clock.Wall(q.Time)}
}

func (e Encoder) found(f *Found, r Reader) (b api.Delegated) {
	if f.Request != nil {
		b = e.request(f.Request, r)
	}
	b.State, b.Ends, b.Observed, b.Session = "attributed", f.Ends, f.Observed, f.Session.String()
	b.Process = &api.Process{Ref: Ref(f.Process), Comm: f.Comm}
	if n, ok := e.Graph.Node(f.Process); ok {
		b.Process.Container = Container(n.Container)
		if now := n.Comm.String(); now != "" {
			b.Process.Comm = now // it may have execed another program since
		}
	}
	b.Evidence = evidence(lineage.Adopted, f.Source)
	return b
}

// broughtBy describes how a process that no member forked came to its session; nil if a
// member forked it.
func (e Encoder) broughtBy(w *Work, id lineage.ID, r Reader) *api.Delegated {
	i := slices.IndexFunc(w.Brought, func(f Found) bool { return f.Process == id })
	if i < 0 {
		return nil
	}
	return new(e.found(&w.Brought[i], r))
}
