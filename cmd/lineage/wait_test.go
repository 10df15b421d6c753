package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

var errAway = &api.UnreachableError{Socket: "l.sock", Err: os.ErrNotExist}

// TestWait: the exit.code says what is proven, never more; a daemon that restarts does not matter, and what other
// daemons do for a session is waited for.
func TestWait(t *testing.T) {
	for _, c := range []struct {
		args     string
		verdicts string // of each answer, the last one again; away: there is no daemon
		code     int
		says     string
	}{
		{"old", "clean", 0, ""},
		{"build", "away away clean", 0, ""},
		{"build --timeout 1m", "clean", 0, ""},
		{"build old", "left clean", api.ExitLeft, "left"},
		{"build", "unknown", api.ExitFailed, "unknown"},
		{"build old", "unknown left", api.ExitLeft, ""},
		{"build --timeout 20ms", "-", 124, "not over after 20ms"},
		{"build --timeout 20ms", "away", api.ExitFailed, "l.sock"},
		{"build --timeout 20ms", "gone", api.ExitNotFound, "not found"},
		{"--user 1000", "clean", 0, "session c0mpan holds work of k3x9q2"},
		{"build --timeout 30", "clean", api.ExitUsage, "--timeout"},
		{"build --timeout 0s", "clean", api.ExitUsage, "--timeout"},
		{"build --for death", "clean", api.ExitUsage, "end, idle, root-exit"},
		{"", "clean", api.ExitUsage, "SESSION is missing"},
		{"nothing", "clean", api.ExitNotFound, "not found"},
		{"--user 7", "clean", api.ExitNotFound, "no session is selected"},
	} {
		f := newFake()
		if c.args == "--user 1000" {
			f.Has.Sessions = append(f.Has.Sessions, api.Session{ID: "c0mpan", State: api.StateActive, UID: 7, DelegatedBy: "k3x9q2"})
		}
		answers := strings.Fields(c.verdicts)
		f.On.Report = func(ctx context.Context, id string, _ time.Duration) (*api.Report, error) {
			if ctx.Err() != nil {
				t.Errorf("%s: asks with no time for the answer", c.args)
			}
			f.Lock()
			defer f.Unlock()
			now := answers[0]
			answers = answers[min(1, len(answers)-1):]
			switch now {
			case "away":
				return nil, errAway
			case "gone":
				return nil, api.NewError(api.CodeNotFound, id+": not found", "")
			}
			return &api.Report{Session: id, Verdict: api.Verdict(strings.Trim(now, "-"))}, nil
		}
		w, refused := newWorld(t, f), 2
		w.app.dial = func(context.Context, string) (api.Client, error) {
			if refused--; refused > 0 && strings.Contains(c.args, "1m") {
				return nil, errAway
			}
			return f, nil
		}
		code, stdout, stderr := w.run(strings.Fields("wait " + c.args)...)
		if code != c.code || !strings.Contains(stderr, c.says) || code == 0 && !strings.Contains(stdout, "clean") {
			t.Errorf("%s, %s: %d %q %q", c.args, c.verdicts, code, stdout, stderr)
		}
	}
}

// TestWaitFor: a root that exits, a session that is idle, and what is over in between, is noticed, also across a restart.
func TestWaitFor(t *testing.T) {
	gone := live(4121, "sh")
	gone.State = api.StateExited
	runs, ran, idle := api.Session{ID: "k3x9q2", Root: new(live(4121, "sh"))}, api.Session{ID: "k3x9q2", Root: &gone},
		api.Session{ID: "k3x9q2", Root: new(live(4121, "sh")), IdleSeconds: 1}
	first := func(s ...api.Session) api.Frame { return api.Frame{Head: api.Head{Kind: "snapshot"}, Sessions: s} }
	later := func(s ...api.Session) api.Frame { return api.Frame{Head: api.Head{Kind: "diff"}, Sessions: s} }
	partial := first()
	partial.Partial = true
	for name, c := range map[string]struct {
		args    string
		streams [][]api.Frame // the last one stays
		code    int
	}{
		"root":      {"root-exit", [][]api.Frame{{first(runs), later(idle), later(ran)}}, 0},
		"idle":      {"idle", [][]api.Frame{{first(runs), later(ran), later(idle)}}, 0},
		"at once":   {"idle", [][]api.Frame{{first(idle)}}, 0},
		"closed":    {"idle", [][]api.Frame{{first(runs), {Closed: []string{"k3x9q2"}}}}, 0},
		"restart":   {"root-exit", [][]api.Frame{{first(runs)}, {first()}}, 0},
		"lives":     {"root-exit --timeout 20ms", [][]api.Frame{{partial, first(runs), later(idle)}}, 124},
		"no daemon": {"idle --timeout 20ms", nil, api.ExitFailed},
	} {
		f := newFake()
		f.On.Watch = func(ctx context.Context, each func(*api.Frame) error) error {
			if len(c.streams) == 0 {
				return errAway
			}
			for _, frame := range c.streams[0] {
				if err := each(&frame); err != nil {
					return err
				}
			}
			if c.streams = c.streams[1:]; len(c.streams) > 0 {
				return nil // it stops
			}
			<-ctx.Done()
			return ctx.Err()
		}
		if code, stdout, stderr := newWorld(t, f).run(strings.Fields("wait build --for " + c.args)...); code != c.code {
			t.Errorf("%s: %d %q %q", name, code, stdout, stderr)
		} else {
			require.Equal(t, strings.Contains(stdout, "build"), code == 0)
		}
	}
}
