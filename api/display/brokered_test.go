package display

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/internal/require"
)

func TestDelegated(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	asked := &api.Process{Ref: api.Ref{PID: 7}, Comm: "tmux", Argv: []string{"tmux", "new", "a\x1b b"}}
	found := &api.Process{Ref: api.Ref{PID: 9}, Comm: "sh\x1b"}
	inside := *found
	inside.Container = &api.Container{Name: "db"}
	env := &api.Evidence{Kind: "adopted", Source: "env", Confidence: "strong"}
	weak := &api.Evidence{Kind: "adopted", Source: "socket", Confidence: "weak"}
	for want, b := range map[string]api.Delegated{
		`delegated, unattributed: 7 tmux new 'a\x1b b' asked tmux at 03:04:05`: {Broker: "tmux",
			State: "unattributed", Asked: asked, Time: &at},
		`delegated, not found yet: 7 tmux new 'a\x1b b' asked tmux`: {Broker: "tmux",
			State: "pending", Asked: asked},
		`delegated: 9 sh\x1b, adopted(env), strong`: {State: "attributed",
			Process: found, Evidence: env, Session: "s", Ends: true},
		`delegated: 9 sh\x1b, adopted(env), strong, in session t, not ended with this one (policy: observe); to end it: lineage end t`: {State: "attributed",
			Process: found, Evidence: env, Session: "t", Observed: true},
		`delegated: 9 sh\x1b in container db, adopted(env), strong`: {State: "attributed",
			Process: &inside, Evidence: env, Session: "s", Ends: true},
		`delegated: 9 sh\x1b, adopted(socket), weak, in session t, not ended with this one: 7 tmux new 'a\x1b b' asked tmux; to end it: lineage end t`: {Broker: "tmux",
			State: "attributed", Process: found, Evidence: weak, Session: "t", Asked: asked},
	} {
		require.Equal(t, Delegated(&b, "s"), want)
	}
}
