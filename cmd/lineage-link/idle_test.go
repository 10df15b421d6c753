//go:build linux

package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestIdle measures what a link costs a host on which nothing happens: the CPU time of the daemon with and without
// it, in turns, and its own; without a session, and with one that has 700 sleeping members.
func TestIdle(t *testing.T) {
	pairs := stage.FromEnv(t, "LNGTEST_PAIRS", 0)
	if pairs == 0 {
		t.Skip("LNGTEST_PAIRS is not set: make idle-link")
	}
	span := time.Duration(stage.FromEnv(t, "LNGTEST_SECONDS", 60)) * time.Second
	w := newWorld(t, "", func(w *world) { w.built = true })
	w.kill()
	for _, members := range []int{0, 700} {
		if members > 0 {
			w.Start([]string{"run", "--name", "idle", "--", "sh", "-c", `i=1; while [ $i -lt "$1" ]; do sleep 7200 & i=$((i+1)); done; wait`, "sh", fmt.Sprint(members)}, nil)
			w.Until("members", func() bool { return w.Lineage("tree", "idle").Code() == 0 && w.Session("idle").Live == members })
		}
		var ratios []float64
		for n := range pairs {
			var without, with []float64
			for k := range 2 { // each is first as often as the other
				if n%2 == k {
					without = w.idles(span, w.Version().PID)
					continue
				}
				w.start()
				w.Until("connection", func() bool { return bytes.Contains(w.measures(), []byte("\nlineage_link_connected 1\n")) })
				with = w.idles(span, w.Version().PID, w.links.Process.Pid)
				w.kill()
			}
			ratios = append(ratios, with[0]/without[0])
			t.Logf("figure: %d members, pair %d: daemon without a link %.4f %% of a CPU, with one %.4f, the link %.4f, ratio of the daemon %.3f",
				members, n+1, without[0], with[0], with[1], ratios[n])
		}
		slices.Sort(ratios)
		t.Logf("figure: %d members, %d pairs of %v: median ratio of the daemon %.3f", members, pairs, span, ratios[pairs/2])
	}
	w.Must("end", "idle", "--now", "--yes")
}

// idles is the CPU time of all threads of each process in per cent, in a span after what began is over.
func (w *world) idles(span time.Duration, pids ...int) (percent []float64) {
	w.T.Helper()
	used := func(pid int) (ns float64) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		require.NoError(w.T, err)
		for _, task := range tasks {
			n, err := strconv.ParseFloat(string(bytes.Fields(require.ReadFile(w.T, task))[0]), 64)
			require.NoError(w.T, err)
			ns += n
		}
		return ns
	}
	time.Sleep(15 * time.Second)
	for _, pid := range pids {
		percent = append(percent, -used(pid))
	}
	time.Sleep(span)
	for n, pid := range pids {
		percent[n] = (percent[n] + used(pid)) / span.Seconds() / 1e7
	}
	return percent
}
