package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func settings(t *testing.T, tty *os.File) unix.Termios {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	return *s
}

// A sitting is top on a terminal: what it watches, what is typed when a text appears,
// and how it ends.
type sitting struct {
	name, see, keys string
	watch           func(ctx context.Context, each func(*api.Frame) error) error
	code            int
	says            string
}

// When top ends, the terminal is restored.
func TestTopOnATerminal(t *testing.T) {
	frame := &api.Frame{Head: api.Head{Kind: "snapshot"}, Upsert: []api.Process{live(4121, "lngtest-seen")},
		Sessions: []api.Session{{ID: "k3x9q2", State: "active"}}, Status: &api.WatchStatus{}}
	for _, tt := range []sitting{
		{"quit", "lngtest-seen", "q", func(ctx context.Context, each func(*api.Frame) error) error {
			each(frame)
			<-ctx.Done()
			return ctx.Err()
		}, 0, ""},
		{"interrupt", "lngtest-seen", "\x03", func(ctx context.Context, each func(*api.Frame) error) error {
			each(frame)
			<-ctx.Done()
			return ctx.Err()
		}, 0, ""},
	} {
		t.Run(tt.name, tt.run)
	}
}

func (tt sitting) run(t *testing.T) {
	t.Setenv("TERM", "xterm")
	f := newFake()
	f.On.Watch = tt.watch
	w, y := newWorld(t, f), newTypist(t, 80, tt.see, tt.keys, nil)
	before := settings(t, y.tty)
	w.Stdin, w.Stdout = y.tty, y.tty
	code, _, stderr := w.run("top")
	if code != tt.code || !strings.HasPrefix(stderr, tt.says) || strings.Count(stderr, "\n") != tt.code {
		t.Errorf("exit %d: %s", code, stderr)
	}
	require.Equal(t, settings(t, y.tty), before)
	seen := y.saw()
	if on, off := strings.LastIndex(seen, "\x1b[?1049h"), strings.LastIndex(seen, "\x1b[?1049l"); on > off {
		t.Errorf("the alternate screen is left on: %q", seen[max(len(seen)-200, 0):])
	}
	if off, on := strings.LastIndex(seen, "\x1b[?25l"), strings.LastIndex(seen, "\x1b[?25h"); off > on {
		t.Error("the cursor is left hidden")
	}
}
