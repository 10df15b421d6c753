package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// While an end takes long, a terminal shows its progress, of all that lived when it began; Ctrl-C
// then kills.
func TestEndProgress(t *testing.T) {
	f := newFake()
	var asked atomic.Bool
	f.On.Session = func(string) (*api.Session, error) { // 14, then 5
		s := f.Has.Sessions[0]
		if s.Live = 5; asked.CompareAndSwap(false, true) {
			s.Live = 14
		}
		return &s, nil
	}
	f.Has.Sessions[0].Name = "bu\x1bild"
	f.On.End = func(id string, req api.EndRequest) (*api.Report, error) {
		if req.Now {
			return cleanReport(id), nil
		}
		return &api.Report{Session: id, State: "ending", Started: 22, Exited: 2, Left: 14}, nil
	}
	f.On.Report = func(ctx context.Context, _ string, _ time.Duration) (*api.Report, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	w := newWorld(t, f)
	interrupt := sync.OnceFunc(func() { w.signals <- os.Interrupt })
	w.sees = func(text string) {
		if strings.Count(text, "ending bu") > 1 && strings.Contains(text, "15 of 20 gone") {
			interrupt()
		}
	}
	shown := w.terminal("")
	code, out, _ := w.run("end", "-y", "--grace", "30s", "k3x9q2")
	text := shown()
	if code != 0 || !strings.Contains(out, "ended, clean") || !slices.Contains(f.Got.Ended, "k3x9q2 now") {
		t.Errorf("exit %d, ended %v, %s", code, f.Got.Ended, out)
	}
	require.Contains(t, text, `ending bu\x1bild: 15 of 20 gone, SIGKILL in 2`, "s (Ctrl-C: n…", "\r\x1b[Klineage: end: killing now")
	if n := strings.Count(text, "ending bu"); n < 2 || strings.Count(text, "\n") != 1 {
		t.Errorf("%d states: %q", n, text)
	}
}

// The question about what is idle shows how it is used, and what works again before the answer is left alone.
func TestEndIdle(t *testing.T) {
	session := func(id string, idle time.Duration) api.Session {
		return api.Session{ID: id, UID: 1000, State: "active", Live: 2, IdleSeconds: idle.Seconds(), CPUSeconds: 12.5, Ports: []int{3000}}
	}
	f := newFake()
	f.Has.Sessions, f.Has.Trees = []api.Session{session("long00", 2*time.Hour), session("short0", time.Minute), session("busy00", 0)}, nil
	f.Has.Sessions[0].LastEvent = at(-3 * 3600)
	f.On.Tree = func(*api.Tree, string) { f.Has.Sessions[0].IdleSeconds = 0 } // for the question
	w := newWorld(t, f)
	shown := w.terminal("y\n")
	if code, _, _ := w.run("end", "--idle", "1m"); code != 0 || !slices.Equal(f.Got.Ended, []string{"short0"}) {
		t.Errorf("exit %d, ended %v", code, f.Got.Ended)
	}
	require.Contains(
		t,
		strings.ReplaceAll(shown(), "\n  ", " "),
		"session long00: 2 processes will get SIGKILL; it listens on 3000; idle for 2h0m, 12.50s of CPU so far, last event 3h0m ago",
		"session short0: 2 processes", "no event since the daemon started",
		"End these 2 sessions with 4 processes? [y/N] ", "session long00 is no longer selected, and was not ended",
	)
}
