package display

import (
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/internal/require"
)

func TestClaims(t *testing.T) {
	now := time.Now()
	a, b := api.Call{ID: "a", Tool: "Bash"}, api.Call{ID: "b"}
	mark := func(c api.Call) string { return About(&api.Event{Type: api.EventMark, Call: &c}, nil) }
	for want, got := range map[string]string{
		"":                           Calls(nil),
		"tool call Bash a (claimed)": Calls([]api.Call{a}),
		"one of 2 tool calls: Bash a, b (claimed)":       Calls([]api.Call{a, b}),
		"one of 5 tool calls: b, b, b, 2 more (claimed)": Calls([]api.Call{b, b, b, b, b}),
		"end of tool call Bash a (claimed)":              mark(api.Call{ID: "a", Tool: "Bash", Ended: &now}),
		"tool call b (claimed)":                          mark(b),
		"trace 0af7, below span b7ad (claimed)":          Trace(&api.Trace{TraceID: "0af7", SpanID: "b7ad"}),
		`tool call \x1b[2J \u202e\n (claimed)`:           Calls([]api.Call{{ID: "\u202e\n", Tool: "\x1b[2J"}}),
		`end of tool call \x1b]0;x\x07 \u2028 (claimed)`: mark(api.Call{ID: "\u2028", Tool: "\x1b]0;x\x07", Ended: &now}),
	} {
		require.Equal(t, got, want)
	}
	require.Equal(t, Trace(nil), "")
	if got := Calls([]api.Call{{ID: strings.Repeat("x", 200)}}); strings.Contains(got, "\n") {
		t.Error(got)
	}
}
