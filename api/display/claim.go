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
	switch len(calls) {
	case 0:
		return ""
	case 1:
		return "tool call " + Call(&calls[0]) + " (claimed)"
	}
	return fmt.Sprintf("one of %d tool calls: %s (claimed)", len(calls),
		strings.Join(Some(calls, mostCalls, Call), ", "))
}

// Call is the tool and the id of a call.
func Call(c *api.Call) string { return strings.TrimSpace(Text(c.Tool) + " " + Text(c.ID)) }

// Used says what a call's processes have used that have exited, after a colon; "": nothing is known.
func Used(c *api.Call) string {
	u := c.Used
	if u == nil {
		return ""
	}
	return fmt.Sprintf(": %s, CPU %s, largest %s %s", Count(u.Processes, "process"), CPU(u.CPUSeconds),
		Text(u.Largest), Size(u.PeakRSSBytes))
}

// Trace says where in a trace a process is; "" if that is not known.
func Trace(t *api.Trace) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("trace %s, below span %s (claimed)", Text(t.TraceID), Text(t.SpanID))
}
