package display

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestState(t *testing.T) {
	for _, tt := range []struct {
		state        api.SessionState
		reason, want string
	}{
		{api.StateActive, "", "active"},
		{api.StateEnded, "root_exit", "ended: its root exited"},
		{api.StateEnded, "end", "ended on request"},
		{"condemned", "ancestor", "condemned with the session around it"},
		{api.StateEnded, "of_tomorrow\n", `ended: of tomorrow\n`},
	} {
		require.Equal(t, State(&api.Session{State: tt.state, EndReason: tt.reason}), tt.want)
	}
}
