//go:build linux

package daemon_test

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestReal: a shell leaves daemonised sleepers behind, and all of them are ended.
func TestReal(t *testing.T) {
	ctx := t.Context()
	c := new(daemontest.Real).Serve(t)
	s, in, out, cmd := daemontest.Blocked(t, c, "lngtest", `(setsid sleep 300 & ); (setsid sh -c "exec sleep 301" & ); echo up; read go`)
	_, err := out.ReadString('\n')
	require.NoError(t, err)
	var sleeper api.Node
	for asleep := 0; asleep < 2; {
		asleep = 0
		tree, err := c.Tree(ctx, "lngtest", "")
		require.NoError(t, err)
		for _, n := range tree.Nodes {
			if n.State == "live" && len(n.Argv) == 2 && n.Argv[0] == "sleep" {
				asleep++
				if n.Argv[1] == "300" {
					sleeper = n
				}
			}
		}
	}
	why, err := c.Why(ctx, sleeper.Ref.String())
	require.NoError(t, err)
	if len(why.Edges) < 3 || why.Edges[len(why.Edges)-1].Kind != "root" || why.Session == nil || why.Session.ID != s.ID || why.Edges[0].Creator.Alive {
		t.Errorf("%+v", why)
	}
	if p, err := c.Process(ctx, sleeper.Ref.String()); err != nil || p.Task == "" || p.Exe == "" || !p.Orphan {
		t.Errorf("%+v %v", p, err)
	}
	began := time.Now()
	in.Close()
	cmd.Wait()
	r := daemontest.Receipt(t, c, s.ID)
	if r.Verdict != "clean" || r.EndReason != "root_exit" || len(r.Processes) != 2 || r.Killed != 2 {
		t.Errorf("%+v", r)
	}
	for _, p := range r.Processes {
		if p.Outcome != "kill" || !p.Leftover || len(p.Argv) < 2 {
			t.Errorf("%+v", p)
		}
	}
	t.Logf("the receipt came %v after the root's exit, the end took %.2f ms", time.Since(began), r.DurationMS)
}
