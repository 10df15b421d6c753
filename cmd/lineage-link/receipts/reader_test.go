//go:build linux

package receipts

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// reading runs the reader of a host whose daemon sends no events, for the time of f.
func reading(t *testing.T, h *host, f func()) {
	t.Helper()
	h.events = make(chan struct{})
	h.daemon.On.Events = func(ctx context.Context, _ api.EventsQuery, _ func(*api.Event) error) error {
		select {
		case <-h.events:
			return api.ErrNoEnd
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	h.reader.Dial = func(context.Context) (api.Client, error) { return h.daemon, nil }
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { h.reader.Run(ctx); close(done) }()
	defer func() { stop(); <-done }()
	f()
}

// TestSettles: a daemon that has just begun has not written yet what ended while none ran, and no event is to
// come. It is found soon after; also if the daemon is restarted between two looks, so that only the stream of
// events ends.
func TestSettles(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, dir)
		defer h.dir.Close()
		reading(t, h, func() {
			found := func(n int, within time.Duration) {
				t.Helper()
				time.Sleep(within)
				require.Equal(t, h.reader.Box.Has(fmt.Sprintf("s%05d-10@7", n)), true)
			}
			ends := func() { h.begin(); h.end(time.Now()) }
			time.Sleep(time.Second)
			ends()
			found(0, settleTime)
			time.Sleep(wholeTime / 2)
			ends()
			h.events <- struct{}{}
			found(1, 2*soonTime)
			ends()
			found(2, settleTime)
		})
	})
}

// lines are what a logger has written.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestSaidOnce: as long as nothing can be written the log has one line, and one when that is over; also if only
// the history has the session.
func TestSaidOnce(t *testing.T) {
	for _, seen := range []bool{true, false} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, dir)
			defer h.dir.Close()
			log := make(lines, 9)
			h.reader.Log = zerolog.New(log)
			if seen {
				h.begin()
			}
			reading(t, h, func() {
				time.Sleep(time.Second)
				require.NoError(t, os.RemoveAll(dir))
				if !seen {
					h.begin()
				}
				h.end(time.Now())
				time.Sleep(10 * wholeTime)
				if n, line := len(log), <-log; n != 1 {
					t.Errorf("seen %v: %d lines, first %s", seen, n, line)
				}
				require.NoError(t, os.Mkdir(dir, 0o700))
				time.Sleep(2 * wholeTime)
				if n, line := len(log), <-log; n != 1 || !strings.Contains(line, "taken again") {
					t.Errorf("seen %v: %d lines, first %s", seen, n, line)
				}
			})
			require.Equal(t, h.reader.Box.Has("s00000-10@7"), true)
		})
	}
}

// TestMany: however many sessions begin while the outbox is full, few are noted. The history has the others.
func TestMany(t *testing.T) {
	h := newHost(t, t.TempDir())
	defer h.dir.Close()
	ctx, stop := context.WithCancel(t.Context())
	h.daemon.On.Events = func(_ context.Context, _ api.EventsQuery, each func(*api.Event) error) error {
		for i := range 3 * maxOpen {
			require.NoError(t, each(&api.Event{Head: api.Head{Kind: "event"}, Session: fmt.Sprintf("x%06d", i)}))
		}
		stop()
		return nil
	}
	h.reader.listen(ctx, h.daemon)
	require.Equal(t, len(h.reader.state.Open), maxOpen)
}
