//go:build linux

package export

import (
	"encoding/hex"
	"fmt"
	"testing"

	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// TestClaim: what an agent's tool runs is in the agent's trace, below the span that the agent
// named; everything else is in the session's.
func TestClaim(t *testing.T) {
	const traceID, spanID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	i := stage.New(t)
	i.Daemon("--policy", i.Policy("trace: accept\n"))
	r := newReceiver(t)
	exporter(i, r.addr, "traces", t.TempDir())
	i.Must("run", "--name", "claim", "--", "sh", "-c",
		`TRACEPARENT=00-`+traceID+`-`+spanID+`-01 sh -c "sleep 0.3; (ls / >/dev/null; true); true"; TRACEPARENT=nonsense sleep 0.1; exit 0`)
	i.Agrees("claim", func() error {
		byName := map[string][]*trace.Span{}
		for _, s := range r.all() {
			byName[s.Name] = append(byName[s.Name], s)
		}
		if len(byName["lineage.session"]) != 1 {
			return fmt.Errorf("%d spans", len(r.all()))
		}
		own := hex.EncodeToString(byName["lineage.session"][0].TraceId)
		var tool string // span of the tool's shell
		claimed, others := 0, 0
		for _, s := range r.all() {
			switch hex.EncodeToString(s.TraceId) {
			case traceID:
				claimed++
				if hex.EncodeToString(s.ParentSpanId) == spanID {
					if tool != "" {
						return fmt.Errorf("two spans are directly below the agent's")
					}
					tool = hex.EncodeToString(s.SpanId)
				}
				if attribute(s.Attributes, "lineage.trace.claimed") != "true" {
					return fmt.Errorf("%s is not marked as claimed", s.Name)
				}
			case own:
				others++
			default:
				return fmt.Errorf("%s is in a trace of its own", s.Name)
			}
		}
		if claimed != 4 || others != 4 || tool == "" || len(byName["ls"]) != 1 || len(byName["sleep"]) != 2 {
			return fmt.Errorf("%d spans in the agent's trace, %d in the session's: %v", claimed, others, byName)
		}
		for _, s := range byName["sleep"] {
			if hex.EncodeToString(s.TraceId) == traceID && hex.EncodeToString(s.ParentSpanId) != tool {
				return fmt.Errorf("sleep is not below the tool")
			}
		}
		return nil
	})
}
