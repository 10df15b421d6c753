//go:build linux

package follow

import (
	"context"
	"testing"

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

// TestStop: what was read and not delivered is delivered at a stop.
func TestStop(t *testing.T) {
	d, l := newDaemon(t), &list{}
	f := looking(t, d)
	f.Sink, f.batch = l, []*Record{{ID: "last"}}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	f.Run(stopped)
	require.Equal(t, l.ids["last"], 1)
}
