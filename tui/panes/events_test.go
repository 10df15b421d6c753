package panes

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// TestLines: an event names processes as they were called then, whatever happened to them later.
func TestLines(t *testing.T) {
	ref := func(pid int) api.Ref { return api.Ref{PID: pid, StartNS: api.U64(pid)} }
	shell, child, exec := api.Process{Ref: ref(7), Comm: "bash"}, api.Process{Ref: ref(8), Comm: "bash"}, api.Process{Ref: ref(8),
		Comm: "sleep", Argv: []string{"sleep", "9"}}
	by := ref(7)
	child.Creator = &by
	p := &EventsPane{events: []*api.Event{
		{Type: "exec", Process: &shell}, {Type: "fork", Process: &child}, {Type: "exec", Process: &exec},
		{Type: "reaped", Process: &api.Process{Ref: ref(8), Comm: "sleep"}}, {Type: "reaped", Process: &api.Process{Ref: ref(6)}},
		{Type: "lost", Where: "restart"},
	}}
	l := &Labels{Theme: *ink.New("mono"), Picture: picture.New(), Now: time.Unix(0, 0), Limit: 80}
	for i, want := range []string{"exec 7 bash", "fork 8 bash by 7 bash", "exec 8 sleep 9", "reaped 8 sleep", "reaped 6", "lost no events are kept from before this time (restart)"} {
		got := strings.Join(strings.Fields(ansi.Strip(p.line(l, i, 80)))[1:], " ")
		require.Equal(t, got, want)
	}
}
