//go:build linux

package e2e

import (
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestPause pauses a session that forks all the time: it stands still, also over a restart of the daemon, continues
// when it is resumed, and ends without that. A member cannot pause its own session.
func TestPause(t *testing.T) {
	i := stage.New(t)
	d := i.Daemon()
	i.Start([]string{"run", "--name", "busy", "--", "sh", "-c", "while :; do /bin/true; done & while :; do /bin/true; done"}, nil)
	busy := func() *api.Session {
		list := stage.Query[api.Sessions](i, "ls").Items
		at := slices.IndexFunc(list, func(s api.Session) bool { return s.Name == "busy" })
		if at < 0 {
			return &api.Session{}
		}
		return &list[at]
	}
	forks := func(more int) func() bool { return func() bool { return busy().Forks > more } }
	i.Until("it forks", forks(10))
	still := func() {
		t.Helper()
		before := busy()
		if before.Paused == nil {
			t.Fatalf("%+v", before)
		}
		for _, n := range i.Tree("busy").Nodes {
			if n.State == "live" && n.Task != "T" && n.Task != "D" { // D: in vfork, while its child is stopped
				t.Errorf("%d %q is in state %s", n.PID, n.Argv, n.Task)
			}
		}
		if now := busy(); now.Forks != before.Forks {
			t.Errorf("%d forks, then %d", before.Forks, now.Forks)
		}
	}
	require.Contains(t, i.Must("pause", "busy").Out.String(), "stopped")
	require.Contains(t, i.Must("ls", "--state", "paused").Out.String(), "paused")
	still()
	d.Stop()
	i.Daemon()
	still()
	require.Contains(t, i.Must("tree", "busy").Out.String(), "paused")
	require.Contains(t, i.Must("resume", "busy").Out.String(), "continued")
	i.Until("it forks again", forks(busy().Forks+10))

	inside := i.Lineage("run", "--name", "inside", "--", stage.Lineage, "pause", "inside")
	require.Contains(t, inside.Err.String(), "not permitted: the caller is a member of it")
	if inside.Code() != api.ExitDenied {
		t.Error(inside)
	}

	i.Must("pause", "busy")
	i.Must("end", "busy", "--grace", "10m", "--yes")
}
