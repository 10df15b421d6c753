//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestWaitLatency: wait returns after the end, never before it; how soon is printed. LNGTEST_WAITS ends.
func TestWaitLatency(t *testing.T) {
	ends := stage.FromEnv(t, "LNGTEST_WAITS", 5)
	i := stage.NewDaemon(t)
	var took []time.Duration
	for range ends {
		m := stage.NewMarker(t, i.Dir)
		run := i.Start([]string{"run", "--name", "lngtest-waited", "-q", "--", "sh", "-c",
			fmt.Sprintf("exec 9>%s; echo ready >&9; exec sleep 60", m.Path)}, nil)
		m.Ready()
		x := i.Session("lngtest-waited")
		wait := i.Start([]string{"wait", x.ID, "-o", "json"}, nil)
		cpu := ""
		i.Until("wait that waits", func() bool { // its CPU time stays the same
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", wait.Process.Pid))
			was := cpu
			cpu = string(b)
			return err != nil || cpu == was
		})
		require.NoError(t, unix.Kill(x.Root.PID, unix.SIGKILL))
		wait.Wait()
		m.MustBeGone()
		var r api.Report
		require.NoError(t, json.Unmarshal(wait.Out.Bytes(), &r))
		require.Equal(t, r.Verdict, api.VerdictClean)
		took = append(took, wait.Ended().Sub(*r.Ended))
		run.Wait()
	}
	slices.Sort(took)
	t.Logf("figure: %d ends; wait had returned %v (median), %v (largest) after the last member was gone; load %s",
		ends, took[ends/2], took[ends-1], require.ReadFile(t, "/proc/loadavg"))
}
