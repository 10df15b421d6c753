package display

import (
	"fmt"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// mostCalls is how many calls are named on one line.
const mostCalls = 3

// Calls says which tool calls a process may belong to; "" if it has none. A member claimed
// them, and chose the words.
func Calls(calls []api.Call) string {
	var named []string
	for i := range calls[:min(len(calls), mostCalls)] {
		named = append(named, Call(&calls[i]))
	}
	switch n := len(calls); {
	case n == 0:
		return ""
	case n == 1:
		return "tool call " + named[0] + " (claimed)"
	case n > mostCalls:
		named = append(named, fmt.Sprintf("%d more", n-mostCalls))
	}
	return fmt.Sprintf("one of %d tool calls: %s (claimed)", len(calls), strings.Join(named, ", "))
}

// Call is the tool and the id of a call.
func Call(c *api.Call) string { return strings.TrimSpace(Text(c.Tool) + " " + Text(c.ID)) }

// Mark says what an event of type mark reports.
func Mark(c *api.Call) string {
	if c.Ended != nil {
		return "end of tool call " + Call(c) + " (claimed)"
	}
	return "tool call " + Call(c) + " (claimed)"
}

// Trace says where in a trace a process is; "" if that is not known.
func Trace(t *api.Trace) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("trace %s, below span %s (claimed)", Text(t.TraceID), Text(t.SpanID))
}
