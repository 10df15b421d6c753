package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
)

// Off a terminal top is a picture of now.
func TestTopOffATerminal(t *testing.T) {
	w := newWorld(t, newFake())
	golden(t, "top", w.record("top", "build")+w.record("top", "--ascii", "build"))
	_, tree, _ := w.run("tree")
	if _, top, _ := w.run("top"); top != tree {
		t.Errorf("top prints\n%s\ntree prints\n%s", top, tree)
	}
}

func TestTopErrors(t *testing.T) {
	for _, tt := range []struct {
		line, theme string
		code        int
		says        string
	}{
		{"top nosuch", "", 3, "session nosuch: not found"},
		{"top a b", "", 2, `unexpected argument "b"`},
		{"top --theme dark", "", 2, "want one of auto, contrast, mono"},
		{"top", "dark", 2, `LINEAGE_THEME: theme "dark": want one of auto, contrast, mono`},
	} {
		w := newWorld(t, newFake())
		w.vars["LINEAGE_THEME"] = tt.theme
		code, stdout, stderr := w.run(strings.Fields(tt.line)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s%s", tt.line, code, stdout, stderr)
		}
	}
	if code, _, stderr := newWorld(t, nil).run("top"); code != 5 {
		t.Errorf("no daemon: exit %d, %s", code, stderr)
	}
}

func TestTopTheme(t *testing.T) {
	for _, tt := range []struct{ line, theme, noColor, want string }{
		{"", "", "", "auto"}, {"", "contrast", "", "contrast"}, {"--theme auto", "contrast", "", "auto"}, {"", "contrast", "1", "mono"},
		{"--color never", "", "", "mono"}, {"--color always", "", "1", "auto"},
	} {
		w := newWorld(t, newFake())
		w.vars["LINEAGE_THEME"], w.vars["NO_COLOR"] = tt.theme, tt.noColor
		root := w.root()
		cmd, args, err := root.Find(strings.Fields("top " + tt.line))
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		got, err := w.topTheme(cmd.Flag("theme").Value.String(), cmd.Flags().Changed("theme"))
		if err != nil || got != tt.want {
			t.Errorf("%+v: %s, %v", tt, got, err)
		}
	}
}

// typist is somebody at a terminal: he types keys when he sees what he waits
// for.
type typist struct {
	tty  *os.File
	over chan struct{}

	mu   sync.Mutex
	seen bytes.Buffer
}

func newTypist(t *testing.T, see, keys string) *typist {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 80})
	y := &typist{tty: tty, over: make(chan struct{})}
	go func() {
		defer close(y.over)
		b := make([]byte, 4096)
		for typed := false; ; {
			n, err := master.Read(b)
			y.mu.Lock()
			y.seen.Write(b[:n])
			if !typed && bytes.Contains(y.seen.Bytes(), []byte(see)) {
				typed = true
				master.WriteString(keys)
			}
			y.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { tty.Close(); <-y.over; master.Close() })
	return y
}

// saw is all that the terminal was sent.
func (y *typist) saw() string {
	y.tty.Close()
	<-y.over
	return y.seen.String()
}

func settings(t *testing.T, tty *os.File) unix.Termios {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

// The terminal is as it was when top ends, however it ends.
func TestTopOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	frame := &api.Frame{Head: api.Head{Kind: "snapshot"}, Upsert: []api.Process{live(4121, "lngtest-seen")},
		Sessions: []api.Session{{ID: "k3x9q2", State: "active"}}, Status: &api.WatchStatus{}}
	for _, tt := range []struct {
		name, see, keys string
		watch           func(ctx context.Context, each func(*api.Frame) error) error
		code            int
		says            string
	}{
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
		{"panic", "", "", func(context.Context, func(*api.Frame) error) error { panic("lngtest") }, 1, "lineage: draw on the terminal: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake()
			f.watch = tt.watch
			w, y := newWorld(t, f), newTypist(t, tt.see, tt.keys)
			before := settings(t, y.tty)
			w.stdin, w.stdout = y.tty, y.tty
			code, _, stderr := w.run("top")
			if code != tt.code || !strings.HasPrefix(stderr, tt.says) || strings.Count(stderr, "\n") != tt.code {
				t.Errorf("exit %d: %s", code, stderr)
			}
			if after := settings(t, y.tty); after != before {
				t.Errorf("the terminal was %+v and is %+v", before, after)
			}
			seen := y.saw()
			if on, off := strings.LastIndex(seen, "\x1b[?1049h"), strings.LastIndex(seen, "\x1b[?1049l"); on > off {
				t.Errorf("the alternate screen is left on: %q", seen[max(len(seen)-200, 0):])
			}
			if off, on := strings.LastIndex(seen, "\x1b[?25l"), strings.LastIndex(seen, "\x1b[?25h"); off > on {
				t.Error("the cursor is left hidden")
			}
		})
	}
}
