//go:build linux

package main

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestEachReceiptOnce: sessions end while the server is killed, the exporter is killed, the disk is full and the
// daemon is restarted, also at the same time. In the end the stream has the receipt of each, once.
func TestEachReceiptOnce(t *testing.T) {
	longest := time.Second
	if d, err := time.ParseDuration(os.Getenv("LNGTEST_OUTAGE")); err == nil {
		longest = d
	}
	w := newWorld(t, "")
	w.killExport()
	require.NoError(t, syscall.Mount("lngtest", w.state, "tmpfs", 0, fmt.Sprintf("size=256k,mode=0700,uid=%d,gid=%d", stage.Nobody, stage.Group)))
	t.Cleanup(func() {
		w.killExport()
		require.NoError(t, syscall.Unmount(w.state, 0))
	})
	w.export()
	w.Until("cursor", func() bool { _, err := os.Stat(filepath.Join(w.state, "nats.cursor")); return err == nil })
	var names []string
	run := func(n int) {
		for range n {
			name := fmt.Sprint("lngtest-", len(names))
			names = append(names, name)
			w.Must("run", "--name", name, "--", "true")
		}
	}
	full := filepath.Join(w.state, "ballast")
	faults := []struct {
		name        string
		begin, over func()
	}{
		{"server", w.stopServer, w.serve},
		{"exporter", w.killExport, w.export},
		{"disk", func() { os.WriteFile(full, bytes.Repeat([]byte("x"), 1<<20), 0o600) }, func() { os.Remove(full) }},
		{"daemon stops", func() { w.serves.Process.Signal(syscall.SIGTERM); w.serves.Wait() }, w.daemon},
		{"daemon is killed", func() { w.serves.Process.Kill(); w.serves.Wait() }, w.daemon},
	}
	run(3)
	for round := range stage.FromEnv(t, "LNGTEST_ROUNDS", 3) * len(faults) {
		one, other := faults[round%len(faults)], faults[rand.N(len(faults))]
		t.Logf("%s, %s", one.name, other.name)
		live := w.Start([]string{"run", "--name", fmt.Sprint("lngtest-live-", round), "--", "sleep", "3"}, nil)
		names = append(names, fmt.Sprint("lngtest-live-", round))
		w.Until("session", func() bool { return w.Lineage("tree", names[len(names)-1]).Code() == 0 }) // without a daemon none would begin
		one.begin()
		daemon := strings.HasPrefix(one.name, "daemon")
		if other.name != one.name && !(daemon && strings.HasPrefix(other.name, "daemon")) {
			daemon = daemon || strings.HasPrefix(other.name, "daemon")
			other.begin()
		} else {
			other.over = func() {}
		}
		outage := longest
		if daemon {
			outage = min(outage, time.Second)
		} else {
			run(2)
		}
		time.Sleep(rand.N(outage))
		one.over()
		other.over()
		live.Wait() // after the daemon is back: without one it would start its own
		run(2)
		time.Sleep(rand.N(outage / 4))
	}
	want := map[string]*api.Session{}
	for _, name := range names {
		x := w.Record(name)
		want[x.ID] = x
	}
	require.Equal(t, len(want), len(names))
	w.Agrees("receipts", func() error {
		missing := maps.Clone(want)
		for _, r := range w.receipts() {
			delete(missing, r.Report.Session)
		}
		if len(missing) == 0 {
			return nil
		}
		return fmt.Errorf("missing: %v", slices.Sorted(maps.Keys(missing)))
	})
	time.Sleep(2 * time.Second) // a repeat may come
	all := w.receipts()
	seen := map[string]int{}
	for _, r := range all {
		seen[r.ID]++
		if seen[r.ID] > 1 || r.Report.Verdict == "" {
			t.Errorf("receipt %s came %d times: %+v", r.ID, seen[r.ID], r.Report)
		}
	}
	t.Logf("figure: %d sessions, %d receipts", len(want), len(all))
}
