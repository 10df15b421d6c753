package perfetto

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
)

// maxCalls limits the tool calls that are open at once: members decide how many there are.
const maxCalls = 1024

// call shows a tool call of a coding agent as a slice above the processes. Calls that
// overlap are on tracks with the same name, which the viewer shows as lanes of one track.
func (t *Trace) call(at uint64, ev *api.Event) {
	c := ev.Call
	if c == nil {
		return
	}
	of := c.ID
	if c.Agent != nil {
		of = c.Agent.String() + "\x00" + c.ID
	}
	uuid := id("call", t.session.ID+"\x00"+of)
	switch began, open := t.calls[uuid]; {
	case c.Ended != nil && open:
		delete(t.calls, uuid)
		t.emit(&happening{at: max(at, began), kind: sliceEnd, track: uuid})
	case c.Ended == nil && !open && len(t.calls) < maxCalls:
		t.calls[uuid] = at
		t.describe(&track{uuid: uuid, parent: t.id("session"), name: "tool calls", rank: rankCalls, lanes: true})
		notes := said([]note{{name: "claimed by", text: "the agent"}}, "id", c.ID)
		if c.Agent != nil {
			notes = append(notes, note{name: "agent", n: int64(c.Agent.PID)})
		}
		t.emit(&happening{at: at, kind: sliceBegin, track: uuid, category: "tool", name: cmp.Or(c.Tool, "tool call"), notes: notes})
	}
}

// closeCalls ends the tool calls whose end was never reported.
func (t *Trace) closeCalls() {
	for _, uuid := range slices.Sorted(maps.Keys(t.calls)) {
		t.emit(&happening{at: max(t.now, t.calls[uuid]), kind: sliceEnd, track: uuid, notes: []note{{name: "end", text: "not reported"}}})
	}
	clear(t.calls)
}

// claims are what members claim about a process.
func claims(notes []note, p *api.Process) []note {
	for i := range p.Calls {
		if i == 4 { // more would not help
			break
		}
		notes = said(notes, "tool call (claimed)", cmp.Or(p.Calls[i].Tool, p.Calls[i].ID))
	}
	if p.Trace != nil {
		notes = said(notes, "trace id (claimed)", p.Trace.TraceID)
		notes = said(notes, "span id (claimed)", p.Trace.SpanID)
	}
	return notes
}
