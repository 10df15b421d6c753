package display

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/internal/require"
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

func TestPaused(t *testing.T) {
	by := &api.Sender{Kind: "process", Process: &api.Process{Ref: api.Ref{PID: 4242}, Comm: "sh\n"}}
	for _, tt := range []struct {
		continued *api.Continued
		want      string
	}{
		{nil, "paused"},
		{&api.Continued{Running: 2}, "paused, 2 running"},
		{&api.Continued{Running: 2, By: by}, `paused, 2 running, continued by 4242 sh\n`},
		{&api.Continued{Running: 1, By: &api.Sender{Kind: "timer"}}, "paused, 1 running, continued by timer"},
	} {
		require.Equal(t, State(&api.Session{State: api.StateActive, Paused: new(time.Now()), Continued: tt.continued}), tt.want)
	}
}
