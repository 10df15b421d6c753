//go:build linux

package main

import (
	"bytes"
	"fmt"
	"path/filepath"
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
		var without, with, own float64
		for n := range pairs {
			for k := range 2 { // the one is first as often as the other
				if n%2 == k {
					without += w.idles(span, w.Version().PID)[0]
					continue
				}
				w.start()
				w.Until("connection", func() bool { return bytes.Contains(w.measures(), []byte("\nlineage_link_connected 1\n")) })
				both := w.idles(span, w.Version().PID, w.links.Process.Pid)
				with, own = with+both[0], own+both[1]
				w.kill()
			}
		}
		p := 100 / (span.Seconds() * float64(pairs))
		t.Logf("figure: %d members, %d pairs of %v: daemon without a link %.4f %% of a CPU, with one %.4f, the link %.4f; ratio of the daemon %.3f",
			members, pairs, span, without*p, with*p, own*p, with/without)
	}
	w.Must("end", "idle", "--now", "--yes")
}

// idles is the CPU time in seconds of all threads of each process, in a span after what began is over.
func (w *world) idles(span time.Duration, pids ...int) (seconds []float64) {
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
		seconds = append(seconds, -used(pid))
	}
	time.Sleep(span)
	for n, pid := range pids {
		seconds[n] = (seconds[n] + used(pid)) / 1e9
	}
	return seconds
}
