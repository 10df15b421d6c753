//go:build linux

package agents

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/agents/model"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// traced is Claude Code with its tracing on. With a base URL that is not the vendor's, it gives
// its children a TRACEPARENT only if configured.
func traced() *agent {
	a := *claude
	a.env = func(url string) []string {
		return append(claude.env(url), "CLAUDE_CODE_ENABLE_TELEMETRY=1", "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1", "CLAUDE_CODE_PROPAGATE_TRACEPARENT=1",
			"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_ENDPOINT="+url)
	}
	return &a
}

// The tool calls of one trial, and how many processes each starts at least.
const (
	toolCalls     = 6
	callProcesses = 30
)

// burst is what a tool call runs: short-lived processes, a shell in a shell, and one that daemonises.
const burst = `echo "span $1 ${TRACEPARENT:-none}" >>MARKER
for n in $(seq 20); do /bin/true; done
sh -c 'for n in 1 2 3 4; do (/bin/true; :); done'
(setsid sleep 30$1 >/dev/null 2>&1 &)
`

// TestClaims runs a real agent with hooks. Every process that a tool call started must be
// attributed to that call: by the trace if the agent gives its children one, else by the marks of
// its hooks. The truth comes from the creators in the history and from what the calls themselves
// wrote.
func TestClaims(t *testing.T) {
	for _, tt := range []struct {
		name  string
		agent *agent
		spans bool
	}{
		{"claude-code", claude, false}, {"claude-code with tracing", traced(), true}, {"codex", codex,
			false}, {"gemini-cli", gemini, false}, {"opencode", opencode, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.agent.path(t) // skips
			x := newTrial(t, tt.agent, true)
			x.Daemon("--policy", x.Policy("trace: accept\n"))
			x.file("burst.sh", burst)
			var turns []model.Turn
			for n := range toolCalls {
				turns = append(turns, model.Run(fmt.Sprintf("sh burst.sh %d", n)))
			}
			x.script(turns...)
			command := x.once("agent")
			x.setup(tt.agent.name, "--yes")
			x.exec(command).Wait()
			calls := x.burstsOf("agent")
			all, marked, inTrace := 0, 0, 0
			spans := map[string]bool{}
			for n := range toolCalls {
				said := x.m.Line("span", n+1) // the call and its traceparent
				if said[0] != fmt.Sprint(n) {
					t.Fatalf("call %d is %q", n, said)
				}
				span := strings.Split(said[1]+"---", "-")[2]
				spans[span] = true
				if len(calls[n]) < callProcesses {
					t.Errorf("the history has %d processes of call %d", len(calls[n]), n)
				}
				ids := map[string]int{}
				for _, p := range calls[n] {
					all++
					if len(p.Calls) == 1 && p.Calls[0].Claimed && p.Calls[0].Ended != nil {
						ids[p.Calls[0].ID]++
					}
					if p.Trace != nil && p.Trace.Claimed && p.Trace.SpanID == span && strings.Contains(said[1], p.Trace.TraceID) {
						inTrace++
					}
				}
				most := 0
				for _, of := range ids {
					most = max(most, of)
				}
				marked += most
			}
			t.Logf("figure: %s: of %d processes below %d tool calls %.1f%% have the mark of their call, %.1f%% its span",
				tt.name, all, toolCalls, 100*float64(marked)/float64(all), 100*float64(inTrace)/float64(all))
			if marked*100 < all*99 {
				t.Errorf("%d of %d processes have their call", marked, all)
			}
			if tt.spans && (inTrace*100 < all*99 || len(spans) != toolCalls || spans[""]) {
				t.Errorf("%d of %d processes have their span; the spans are %v", inTrace, all, spans)
			}
			if !tt.spans && inTrace != 0 {
				t.Errorf("%d processes have a span, of an agent that gives none", inTrace)
			}
			x.bystander.MustBeUntouched()
		})
	}
}

// burstsOf groups the processes of an ended session by the tool call that they descend from, by
// the creators in its history.
func (x *trial) burstsOf(name string) map[int][]api.Process {
	x.T.Helper()
	var history struct{ Nodes []api.Node }
	require.NoError(x.T, json.Unmarshal(x.Must("history", name, "--all", "-o", "json").Out.Bytes(), &history))
	of := map[api.Ref]int{}
	calls := map[int][]api.Process{}
	slices.SortFunc(history.Nodes, func(a, b api.Node) int { return a.Started.Compare(*b.Started) })
	for _, n := range history.Nodes {
		call := -1
		if n.Creator != nil {
			if above, known := of[*n.Creator]; known {
				call = above
			}
		}
		if _, after, found := strings.Cut(strings.Join(n.Argv, " "), "sh burst.sh "); call < 0 && found {
			fmt.Sscan(after, &call)
		}
		if of[n.Ref] = call; call >= 0 {
			calls[call] = append(calls[call], n.Process)
		}
	}
	return calls
}
