package perfetto

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// maxCalls limits the tool calls that are open at once: members decide how many there are.
const maxCalls = 1024

// call is a tool call, as its agent names it.
type call struct {
	agent api.Ref
	id    string
}

// span is a slice that may overlap others.
type span struct {
	id    int
	began uint64
	name  string
}

// call shows a tool call of a coding agent as a slice of the session.
func (t *Trace) call(at uint64, ev *api.Event) {
	c := ev.Call
	if c == nil {
		return
	}
	of := call{id: c.ID}
	if c.Agent != nil {
		of.agent = *c.Agent
	}
	switch open := t.calls[of]; {
	case c.Ended != nil && open != nil:
		delete(t.calls, of)
		t.over(open, at, nil)
	case c.Ended == nil && open == nil && len(t.calls) < maxCalls:
		t.spans++
		s := &span{t.spans, at, cmp.Or(clean(c.Tool, maxName), "tool call")}
		t.calls[of] = s
		about := notes{"claimed by": "the agent"}
		about.say("id", c.ID)
		if c.Agent != nil {
			about["agent"] = c.Agent.PID
		}
		t.emit(event{Phase: spanBegin, At: ns(at), Track: sessionTrack, Category: "tool", Name: s.name, ID: s.id, Notes: about})
	}
}

func (t *Trace) over(s *span, at uint64, about notes) {
	t.emit(event{Phase: spanEnd, At: ns(max(at, s.began)), Track: sessionTrack, Category: "tool", Name: s.name, ID: s.id, Notes: about})
}

// closeCalls ends the tool calls whose end was never reported.
func (t *Trace) closeCalls() {
	for _, s := range slices.SortedFunc(maps.Values(t.calls), func(a, b *span) int { return a.id - b.id }) {
		t.over(s, t.now, notes{"end": "not reported"})
	}
	clear(t.calls)
}

// claims adds what members claim about a process.
func (n notes) claims(p *api.Process) {
	var calls []string
	for i := range p.Calls[:min(len(p.Calls), 4)] { // more would not help
		calls = append(calls, cmp.Or(p.Calls[i].Tool, p.Calls[i].ID))
	}
	n.say("tool calls (claimed)", strings.Join(calls, ", "))
	if p.Trace != nil {
		n.say("trace id (claimed)", p.Trace.TraceID)
		n.say("span id (claimed)", p.Trace.SpanID)
	}
}
