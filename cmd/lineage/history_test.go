package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Unknown facts about the past are not invented, and process names cannot affect a
// terminal.
func TestHistoryOfAnotherBoot(t *testing.T) {
	f := newFake()
	root := exited(70, "evil\x1b[2J", 1)
	s := api.Session{ID: "q1w2e3", Name: "lost", UID: 1000, State: "ended", Root: &root, Forks: 3, Peak: 2, Started: at(-90000),
		EndReason: "reboot", Verdict: "clean", Level: 4, Mode: "observe"}
	short := s
	short.ID, short.Name, short.Ended, short.EndReason, short.Verdict = "z9x8c7", "", at(-89998), "end", "left"
	f.Has.Sessions = []api.Session{s, short}
	f.Has.Trees["q1w2e3"] = &api.Tree{Roots: []api.Ref{root.Ref}, Nodes: []api.Node{{Process: root}}}
	f.On.Report = func(_ context.Context, id string, _ time.Duration) (*api.Report, error) {
		r := cleanReport(id)
		r.Processes, r.EndedBy, r.VerdictWhy = nil, &api.Caller{UID: 1000, PID: 9, Comm: "sh\x1b[2J"}, "the host was restarted"
		return r, nil
	}
	golden(t, "history rebooted", newWorld(t, f).record("history")+newWorld(t, f).record("history", "-o", "wide")+
		newWorld(t, f).record("history", "lost"))
}

// A session that is about to end is awaited: its grace is when one looks.
func TestHistoryOfTheEnding(t *testing.T) {
	f := newFake()
	f.Has.Sessions[0].State = api.StateEnding
	f.On.Report = func(_ context.Context, id string, wait time.Duration) (*api.Report, error) {
		if wait > 0 {
			f.Has.Sessions[0].State = api.StateEnded
		}
		return cleanReport(id), nil
	}
	if code, stdout, stderr := newWorld(t, f).run("history", "build"); code != 0 || !strings.Contains(stdout, "k3x9q2: ended, clean") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
}

// Pages are requested until there are as many sessions as wanted; the times use the
// caller's clock.
func TestHistoryPages(t *testing.T) {
	f := newFake()
	f.Has.Sessions = nil
	for _, id := range []string{"aaaaa1", "aaaaa2", "aaaaa3", "aaaaa4", "aaaaa5"} {
		f.Has.Sessions = append(f.Has.Sessions, api.Session{ID: id, State: "ended"})
	}
	for args, want := range map[string]int{"": 5, "--limit 0": 5, "--limit 3": 3, "--limit 2": 2, "--since 1h --until 2026-03-04T12:00:00Z": 5} {
		f.Got.History = nil
		code, stdout, stderr := newWorld(t, f).run(strings.Fields("history -o name " + args)...)
		if got := strings.Fields(stdout); code != 0 || stderr != "" || len(got) != want || got[want-1] != f.Has.Sessions[want-1].ID {
			t.Errorf("%q: %d %q %q", args, code, stdout, stderr)
		}
		q := f.Got.History[0]
		if strings.Contains(args, "since") && (!q.Since.Equal(noon.Add(-time.Hour)) || !q.Until.Equal(noon.Add(-200*time.Second))) {
			t.Errorf("asked for %+v", q)
		}
	}
}

// An event of another day has its date. A reaped process has no name any more. A stream that
// ended early says why.
func TestPastEvents(t *testing.T) {
	f := newFake()
	f.Has.Events = []api.Event{{Seq: 9, Time: at(-90000), Type: "exec", Process: new(live(4140, "git")), Session: "k3x9q2"},
		{Seq: 10, Time: at(-9), Type: "exec", Process: new(live(4140, "git")), Session: "k3x9q2"},
		{Seq: 11, Time: at(0), Type: "reaped", Process: &api.Process{Ref: ref(4140)}, Session: "k3x9q2"},
		{Head: api.Head{Kind: "end"}, Reason: "until"}}
	past := newWorld(t, f).record("events", "--since", "48h", "--until", "0s")
	f.Has.Events = []api.Event{{Head: api.Head{Kind: "end"}, Reason: "slow"}}
	golden(t, "events past", past+newWorld(t, f).record("events"))
	if q := f.Got.Events[0]; !q.Since.Equal(noon.Add(-48*time.Hour)) || !q.Until.Equal(noon) {
		t.Errorf("asked for %+v", q)
	}
}

// For a build with thousands of exited processes only those are shown that the end had to
// end, with their ancestors, whichever of them died first.
func TestHistoryOfTheEnd(t *testing.T) {
	f := newFake()
	f.On.Report = func(_ context.Context, id string, _ time.Duration) (*api.Report, error) {
		r := cleanReport(id)
		r.Ended, r.DurationMS = at(-20), 5000
		r.Processes = []api.Outcome{{Ref: ref(4130), Comm: "sleep", Outcome: "term"}, {Ref: ref(4121), Comm: "sh", Outcome: "self"}}
		return r, nil
	}
	names := func(args ...string) string {
		// 4130 by 4122 by 4121, which is the root. 4126 is of a nested session, whose own
		// receipt names its processes, and died after the end began, as 4124; 4125 and 4127
		// died before.
		tree := newFake().Has.Trees["k3x9q2"]
		for i := range tree.Nodes {
			switch n := &tree.Nodes[i]; n.PID {
			case 4126:
				n.Session, n.Exited = "nested", at(-25)
			case 4122, 4125, 4127:
				n.Exited = at(-26)
			}
		}
		f.Has.Trees["e7d7c7"] = tree
		_, out, _ := newWorld(t, f).run(append([]string{"history", "old", "-o", "jsonl"}, args...)...)
		var pids []string
		for _, pid := range []string{"4121", "4122", "4123", "4124", "4125", "4126", "4127", "4128", "4130"} {
			if strings.Contains(out, `"kind":"process","pid":`+pid+`,`) {
				pids = append(pids, pid)
			}
		}
		return strings.Join(pids, " ")
	}
	require.Equal(t, names(), "4121 4122 4123 4124 4126 4130")
	require.Equal(t, names("--all"), "4121 4122 4123 4124 4125 4126 4127 4128 4130")
	f.Has.Trees["e7d7c7"], f.On.Report = newFake().Has.Trees["k3x9q2"], nil
	if _, out, _ := newWorld(t, f).run("history", "old"); !strings.HasSuffix(out, "\n4 more processes; --all shows them\n") {
		t.Error(out)
	}
	if code, _, stderr := newWorld(t, f).run("history", "--all"); code != 2 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// A name means the last ended session with that name, even if a live session has it now.
func TestHistoryOfALiveName(t *testing.T) {
	f := newFake()
	older := f.Has.Sessions[2]
	older.ID, older.Ended = "a1a1a1", at(-7000)
	f.Has.Sessions[2].Name, older.Name = "build", "build"
	f.Has.Sessions = append(f.Has.Sessions, older)
	f.Has.Trees["a1a1a1"] = f.Has.Trees["e7d7c7"]
	if code, out, stderr := newWorld(t, f).run("history", "build", "-o", "name"); code != 0 || out != "e7d7c7\n" {
		t.Errorf("exit %d, %q, %s", code, out, stderr)
	}
}

// A page of one ended session is written to a file; an error is one line, and leaves the file as it
// was.
func TestHistoryInAFile(t *testing.T) {
	f := newFake()
	f.Has.Sessions[0].State, f.Has.Sessions[0].Started = api.StateEnded, at(-60)
	page := filepath.Join(t.TempDir(), "t.html")
	code, stdout, stderr := newWorld(t, f).run("history", "k3x9q2", "--html", page)
	if b, err := os.ReadFile(page); code != 0 || stdout+stderr != "" || err != nil || !strings.Contains(string(b), "<h1>build</h1>") ||
		!strings.Contains(string(b), "<b>4140</b><code>sh</code>") {
		t.Errorf("exit %d, %v, %s%s", code, err, stdout, stderr)
	}
	link := filepath.Join(filepath.Dir(page), "link")
	require.NoError(t, os.Symlink(page, link))
	for line, want := range map[string]int{
		"history k3x9q2 --all --html " + page:          2,
		"history k3x9q2 --html " + link + "/none/file": 1,
		"history --html " + page:                       2,
		"history k3x9q2 -o json --html " + page:        2,
		"history k3x9q2 -H web1 --html " + page:        2,
		"history nosuch --html " + page:                3,
		"history k3x9q2 --html " + link:                1,
		"history k3x9q2 --html=":                       2,
		"history m8p4z1 --html " + page:                3,
	} {
		if code, stdout, stderr := newWorld(t, f).run(strings.Fields(line)...); code != want || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, want %d: %s%s", line, code, want, stdout, stderr)
		}
	}
	if all, _ := os.ReadDir(filepath.Dir(page)); len(all) != 2 {
		t.Errorf("left behind: %v", all)
	}
}
