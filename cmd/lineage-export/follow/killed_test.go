//go:build linux

package follow

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestCursorWhileRunning: the cursor is written while records are delivered, not only at a stop:
// after SIGKILL they do not come again.
func TestCursorWhileRunning(t *testing.T) {
	d, l, dir := newDaemon(t), &list{}, t.TempDir()
	f, _ := follower(t, d, l, dir)
	d.add(fork(10), exit(10))
	require.Eventually(t, "record", func() bool { return len(l.pids()) == 1 })
	require.Eventually(t, "cursor after the delivery", func() bool {
		c, err := f.Store.cursor("list")
		return err == nil && c != nil && c.Seq > 0
	})
}

// TestBetweenModelAndCursor: a model that is older than the cursor, as SIGKILL leaves it, is brought
// up to the cursor without records: those of the event at the cursor were delivered, too.
func TestBetweenModelAndCursor(t *testing.T) {
	d, l, dir := newDaemon(t), &list{}, t.TempDir()
	kept := filepath.Join(dir, "list.model")
	_, stop := follower(t, d, l, dir)
	d.add(fork(10), fork(11))
	require.Eventually(t, "model", func() bool { _, err := os.Stat(kept); return err == nil })
	old := require.ReadFile(t, kept)
	d.add(exit(10), fork(12), exit(12))
	require.Eventually(t, "records", func() bool { return len(l.pids()) == 2 })
	stop()
	require.NoError(t, os.WriteFile(kept, old, 0o600))
	d.add(exit(11))
	again := &list{}
	follower(t, d, again, dir)
	require.Eventually(t, "exit", func() bool { p := again.pids(); return len(p) > 0 && p[len(p)-1] == 11 })
	require.Equal(t, fmt.Sprint(again.pids()), "[11]")
}

// TestStop: what was read and not delivered is delivered at a stop.
func TestStop(t *testing.T) {
	d, l := newDaemon(t), &list{}
	f := looking(t, d)
	f.Sink, f.batch = l, []*record.Record{{ID: "last"}}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	f.Run(stopped)
	if l.ids["last"] != 1 {
		t.Errorf("delivered: %v", l.ids)
	}
}
