package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// chosen is what end --yes ends for a user, and how many sessions it spares.
type chosen struct {
	uid    int
	ends   string
	spared int
}

func endsChosen(t *testing.T, f *apitest.Client, args string, want chosen) {
	w := newWorld(t, f)
	w.host.euid = func() int { return want.uid }
	code, _, stderr := w.run(strings.Fields("end --yes " + args)...)
	got := strings.ReplaceAll(strings.Join(f.Got.Ended, " "), " now", "")
	if code != 0 || got != want.ends || strings.Count(stderr, "not ended") != want.spared {
		t.Errorf("uid %d, %s: exit %d, ended %q, %s", want.uid, args, code, got, stderr)
	}
}

// --all and --mine end the outermost sessions that the caller may end, but no kept
// session and none with a kept one inside.
func TestEndChosen(t *testing.T) {
	session := func(id string, uid int, parent string) api.Session {
		return api.Session{ID: id, UID: uid, Parent: parent, State: "active", Live: 1}
	}
	kept := session("kept00", 1000, "")
	kept.Kept = true
	inner := session("kept11", 1000, "around")
	inner.Kept = true
	all := []api.Session{session("mine00", 1000, ""), session("nested", 1000, "mine00"), session("other0", 1001, ""), kept, session("around", 1000, ""), inner}
	for args, want := range map[string]chosen{
		"--all":       {1000, "mine00", 3},
		"--mine":      {1000, "mine00", 3},
		"--all --now": {0, "mine00 other0", 3},
	} {
		f := newFake()
		f.Has.Sessions = all
		endsChosen(t, f, args, want)
	}
	// A failed end does not stop the others from ending, and sets the exit code.
	f := newFake()
	f.Has.Sessions = all[:3]
	f.On.End = func(id string, _ api.EndRequest) (*api.Report, error) {
		if id == "mine00" {
			return nil, api.NewError(api.CodeGuarded, "end mine00: refused by a guard", "")
		}
		return cleanReport(id), nil
	}
	w := newWorld(t, f)
	w.host.euid = func() int { return 0 }
	if code, _, stderr := w.run("end", "--all", "--yes"); code != api.ExitDenied || stderr != "lineage: end mine00: refused by a guard\n" || len(f.Got.Ended) != 2 {
		t.Errorf("exit %d, ended %v, %s", code, f.Got.Ended, stderr)
	}
	// Nothing to end is a success.
	f = newFake()
	f.Has.Sessions = nil
	if code, out, stderr := newWorld(t, f).run("end", "--mine"); code != 0 || out != "" || stderr != "lineage: end: no session to end\n" {
		t.Errorf("exit %d, %q, %q", code, out, stderr)
	}
}

// It asks as for one session, and --dry-run sends nothing.
func TestEndChosenAsks(t *testing.T) {
	f := newFake()
	w := newWorld(t, f)
	shown := w.terminal("n\n")
	if code, _, _ := w.run("end", "--mine"); code != api.ExitFailed || len(f.Got.Ended) != 0 {
		t.Errorf("exit %d, ended %v", code, f.Got.Ended)
	}
	if text := shown(); !strings.Contains(text, "session k3x9q2 build: 5 processes") || strings.Contains(text, "m8p4z1") {
		t.Errorf("asked\n%s", text)
	}
	if code, out, _ := newWorld(t, f).run("end", "--mine", "--dry-run"); code != 0 || len(f.Got.Ended) != 0 || !strings.HasPrefix(out, "k3x9q2 build: 4 processes would get") {
		t.Errorf("exit %d, ended %v, %s", code, f.Got.Ended, out)
	}
}

// While an end takes long, a terminal shows its progress, of all that lived when it began; Ctrl-C
// then kills.
func TestEndProgress(t *testing.T) {
	f := newFake()
	asked := 0
	f.On.Session = func(id string) (*api.Session, error) { // 14, then 5
		if asked++; asked == 1 {
			f.Has.Sessions[0].Live = 14
		} else {
			f.Has.Sessions[0].Live = 5
		}
		return f.Find(id)
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

// --idle ends what is idle for long enough and may be ended: no kept session, those
// of other users only as root, none with a busy one inside. The plan shows how they are used.
func TestEndIdle(t *testing.T) {
	session := func(id string, uid int, parent string, idle time.Duration) api.Session {
		return api.Session{ID: id, UID: uid, Parent: parent, State: "active", Live: 2, IdleSeconds: idle.Seconds(), CPUSeconds: 12.5, Ports: []int{3000}}
	}
	kept := session("kept00", 1000, "", 2*time.Hour)
	kept.Kept = true
	all := []api.Session{session("long00", 1000, "", 2*time.Hour), session("short0", 1000, "", time.Minute), session("busy00", 1000, "", 0),
		session("other0", 1001, "", time.Hour), kept, session("around", 1000, "", 2*time.Hour), session("inner0", 1000, "around", 0)}
	all[0].LastEvent = at(-3 * 3600)
	fake := func() *apitest.Client {
		f := newFake()
		f.Has.Sessions = slices.Clone(all)
		f.Has.Trees = nil
		return f
	}
	for args, want := range map[string]chosen{
		"--idle 1h":  {1000, "long00", 2},
		"--idle 30s": {1000, "long00 short0", 2},
		"--idle=1h":  {0, "long00 other0", 2},
		"--idle 3h":  {0, "", 0},
	} {
		endsChosen(t, fake(), args, want)
	}
	for answer, ends := range map[string]int{"y\n": 2, "n\n": 0} {
		f := fake()
		w := newWorld(t, f)
		shown := w.terminal(answer)
		w.run("end", "--idle", "1m")
		text := strings.ReplaceAll(shown(), "\n  ", " ")
		if len(f.Got.Ended) != ends {
			t.Errorf("%q ended %v", answer, f.Got.Ended)
		}
		require.Contains(t, text, "session long00: 2 processes will get SIGKILL; it listens on 3000; idle for 2h0m, 12.50s of CPU so far, last event 3h0m ago",
			"session short0: 2 processes", "no event since the daemon started", "End these 2 sessions with 4 processes? [y/N] ")
	}
	// What works again before the answer is left alone.
	f := fake()
	w := newWorld(t, f)
	f.On.Session = func(id string) (*api.Session, error) { // for the plan
		s, err := f.Find(id)
		before := *s
		if id == "long00" {
			s.IdleSeconds = 0
		}
		return &before, err
	}
	shown := w.terminal("y\n")
	if code, _, _ := w.run("end", "--idle", "1m"); code != 0 || !slices.Equal(f.Got.Ended, []string{"short0"}) {
		t.Errorf("exit %d, ended %v", code, f.Got.Ended)
	}
	require.Contains(t, shown(), "session long00 is no longer idle, and was not ended")
	for _, line := range []string{"--idle 0", "--idle 0s", "--idle 5", "--idle=-1h", "--idle soon", "--idle=", "--idle 1h build", "--idle 1h --all", "--idle 1h --mine",
		"--idle 1h --left", "--idle 1h --branch 5", "--idle 1h --if-plan x", "--idle 1h -H web1", "--idle 1h"} {
		f := fake()
		args := append([]string{"end"}, strings.Fields(line)...)
		if line != "--idle 1h" { // that one cannot ask
			args = append(args, "--yes")
		}
		if code, out, stderr := newWorld(t, f).run(args...); code != api.ExitUsage || out != "" || strings.Count(strings.TrimSpace(strings.ReplaceAll(stderr, "not ended", "")), "lineage: end: ") != 1+strings.Count(stderr, "not ended") || len(f.Got.Ended) != 0 {
			t.Errorf("%s: exit %d, %s%s, ended %v", line, code, out, stderr, f.Got.Ended)
		}
	}
	if code, out, _ := newWorld(t, fake()).run("ls", "--idle", "1h", "-o", "name"); code != 0 || out != "long00\nother0\nkept00\naround\n" {
		t.Errorf("ls: exit %d, %s", code, out)
	}
	for _, line := range []string{"ls --idle 0", "ls --idle 5", "ls --idle=-1s", "ls --idle 1h --all", "ls --idle 1h --state ended", "ls --left --idle 1h"} {
		if code, _, stderr := newWorld(t, fake()).run(strings.Fields(line)...); code != api.ExitUsage || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", line, code, stderr)
		}
	}
}
