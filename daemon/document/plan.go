package document

import (
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

func (e Encoder) Plan(id tracer.SessionID, members []tracer.Process, r Reader) []api.PlanProcess {
	all := make([]api.PlanProcess, len(members))
	for i := range members {
		t := &members[i]
		p := api.Process{Ref: Ref(t.Identity), State: api.StateLive, Started: e.Clock.Wall(t.Start),
			Session: t.Session.String(), Evidence: evidence(t.Evidence, t.Source)}
		looks(&p, &t.Looks, true)
		if n, ok := e.Graph.Node(t.Identity); ok && !n.Ghost {
			p = e.Process(&n, r)
		}
		all[i] = api.PlanProcess{Process: p, Why: e.because(id, t)}
	}
	return all
}

func (e Encoder) because(id tracer.SessionID, t *tracer.Process) string {
	var why string
	creator := fmt.Sprint(t.Creator.PID)
	if n, ok := e.Graph.Node(t.Creator); ok {
		creator = strings.TrimSpace(creator + " " + n.Comm.String())
	}
	switch t.Evidence {
	case tracer.EvidenceRoot:
		why = "root"
		if t.Source != 0 {
			why = onEvidence(why, t.Source)
		}
	case tracer.EvidenceAdopted:
		why = onEvidence("adopted", t.Source)
		switch {
		case t.Creator.PID == 0:
		case t.Source == tracer.SourceParent:
			why += ", child of " + creator
		default:
			why += ", requested by " + creator
		}
	case tracer.EvidenceReconciled:
		why = "child of " + creator + ", found after a missed birth"
	default:
		why = "forked by " + creator
	}
	if t.Session != id {
		why += " of the nested session " + t.Session.String()
	}
	return why
}

// onEvidence names evidence as the answer to why does.
func onEvidence(word string, source tracer.Source) string {
	confidence := "weak"
	if source.Strong() {
		confidence = "strong"
	}
	return fmt.Sprintf("%s (%v), %s", word, source, confidence)
}
