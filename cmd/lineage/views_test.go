package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// orphans has one of each kind, with a hostile name and two reapers.
func orphans() *api.Orphans {
	zombie := func(pid, parent int, session string) api.Orphan {
		z := by(exited(pid, "as\x1b[2J", 0), parent, parent)
		z.State = "zombie"
		return api.Orphan{Process: z, Why: api.WhyZombie, SessionName: "build", Reaper: &api.Process{Ref: ref(parent), Comm: "make\n", Session: session}}
	}
	left := by(live(5100, "node", "server.js"), 5000, 1)
	left.Session = "m8p4z1"
	pane := by(live(5200, "sh", "-c", "npm\x1b test"), 5190, 30)
	asker := exited(5195, "crontab", 0)
	asker.Argv = []string{"crontab", "-"}
	found := &api.Brokered{Broker: "tmux", State: "attributed", Process: &api.Process{Ref: ref(5200), Comm: "sh"},
		Evidence: &api.Evidence{Kind: "adopted", Source: "socket", Confidence: "weak"}, Session: "k3x9q2"}
	return &api.Orphans{Items: []api.Orphan{
		{Process: by(live(4130, "sleep", "300"), 4122, 4100), Why: api.WhyOrphan, SessionName: "build"},
		zombie(4127, 4123, "k3x9q2"), zombie(4129, 4123, "k3x9q2"), zombie(4131, 900, "m8p4z1"),
		{Process: left, Why: api.WhyLeftover},
		{Process: pane, Why: api.WhyOrphan, Brokered: found},
		{Process: asker, Why: api.WhyBrokered, SessionName: "build", Brokered: &api.Brokered{Broker: "cron", State: "unattributed", Asked: &asker}},
	}}
}

// What is left over ends, nothing else, and not without a yes.
func TestEndLeftovers(t *testing.T) {
	const command = "end --left"
	f := newFake()
	w := newWorld(t, f)
	run := func(more string) (code int, out, stderr string) { return w.run(strings.Fields(command + more)...) }
	if code, _, stderr := run(" --yes"); code != 0 || len(f.Got.Ended) != 0 || stderr != "lineage: end: no session to end\n" {
		t.Errorf("%s with nothing to end: exit %d, %s, ended %v", command, code, stderr, f.Got.Ended)
	}
	build := &f.Has.Sessions[0]
	build.Leftovers = build.Live
	if code, _, stderr := run(""); code != api.ExitUsage || len(f.Got.Ended) != 0 || !strings.Contains(stderr, "use --yes") {
		t.Errorf("%s without a terminal: exit %d, %s, ended %v", command, code, stderr, f.Got.Ended)
	}
	if code, _, stderr := run(" --yes nobody"); code != api.ExitNotFound || len(f.Got.Ended) != 0 {
		t.Errorf("%s of nobody: exit %d, %s, ended %v", command, code, stderr, f.Got.Ended)
	}
	if code, _, stderr := run(" --yes m8p4z1"); code != 0 || len(f.Got.Ended) != 0 {
		t.Errorf("%s of one that has its root: exit %d, %s, ended %v", command, code, stderr, f.Got.Ended)
	}
	build.Kept = true
	if code, _, stderr := run(" --yes"); code != 0 || len(f.Got.Ended) != 0 || !strings.Contains(stderr, "session k3x9q2 is kept and not ended") {
		t.Errorf("%s of a kept one: exit %d, %s, ended %v", command, code, stderr, f.Got.Ended)
	}
	build.Kept = false
	if code, out, stderr := run(" --yes"); code != 0 || len(f.Got.Ended) != 1 || !strings.HasPrefix(f.Got.Ended[0], "k3x9q2") {
		t.Errorf("%s: exit %d, %s%s, ended %v", command, code, out, stderr, f.Got.Ended)
	}
	for answer, ends := range map[string]int{"y\n": 1, "n\n": 0, "\n": 0} {
		f := newFake()
		f.Has.Sessions[0].Leftovers = f.Has.Sessions[0].Live
		w := newWorld(t, f)
		shown := w.terminal(answer)
		code, _, _ := w.run(strings.Fields(command)...)
		if len(f.Got.Ended) != ends || (code == 0) != (ends == 1) || !strings.Contains(shown(), "End it? [y/N] ") {
			t.Errorf("%s, %q: exit %d, ended %v", command, answer, code, f.Got.Ended)
		}
	}
	f = newFake()
	f.Has.Sessions = append(f.Has.Sessions, api.Session{ID: "q1w2e3", State: api.StateActive, Live: 2, Leftovers: 2, UID: 1000},
		api.Session{ID: "r4t5z6", State: api.StateActive, Live: 2, Leftovers: 2, UID: 1000})
	f.Has.Sessions[0].Leftovers = f.Has.Sessions[0].Live
	if code, _, _ := newWorld(t, f).run("end", "--left", "--yes", "build", "nosuch"); code != api.ExitNotFound || len(f.Got.Ended) != 0 {
		t.Errorf("one of them unknown: exit %d, ended %v", code, f.Got.Ended)
	}
	newWorld(t, f).run("end", "--left", "--yes", "q1w2e3", "build", "build")
	if slices.Sort(f.Got.Ended); !slices.Equal(f.Got.Ended, []string{"k3x9q2", "q1w2e3"}) {
		t.Errorf("of two ended %v", f.Got.Ended)
	}
	f = newFake()
	f.Has.Sessions[0].Leftovers = f.Has.Sessions[0].Live
	if code, out, _ := newWorld(t, f).run("end", "--left", "--dry-run"); code != 0 || len(f.Got.Ended) != 0 || !strings.Contains(out, "k3x9q2") {
		t.Errorf("--dry-run: exit %d, %s, ended %v", code, out, f.Got.Ended)
	}
	for _, line := range []string{"end --left --all", "end --left --mine",
		"end --left --branch 5", "end --left --if-plan x", "end --left -H web1",
		"ls --left --left=maybe", "ls --left a b",
		"ls --left --state active"} {
		if code, _, stderr := newWorld(t, f).run(strings.Fields(line)...); code != api.ExitUsage || strings.Count(stderr, "\n") != 1 || len(f.Got.Ended) != 0 {
			t.Errorf("%s: exit %d, %s", line, code, stderr)
		}
	}
}

// hostOrphans has an orphan that is listed and also started a session, a member, a process
// that is gone, and the daemon.
func hostOrphans() []text.HostOrphan {
	orphan := func(pid int) text.HostOrphan {
		return text.HostOrphan{Process: api.Process{Ref: api.Ref{PID: pid}, Comm: "vi\x1bte", UID: new(1000), Started: at(-7200), RSSBytes: 5 << 20}}
	}
	listed := orphan(900)
	listed.Ports, listed.DeletedDir, listed.Terminal = []api.Port{{Proto: "tcp", Addr: "127.0.0.1", Port: 5173}, {Proto: "tcp", Addr: "127.0.0.1", Port: 5174, PID: 4130}}, "/tmp/a\nb", "/dev/pts/3"
	return []text.HostOrphan{listed, orphan(4130), orphan(9999), orphan(700)}
}

// Members, what members hold, and the daemon are not orphans outside sessions.
func TestHostOrphans(t *testing.T) {
	var all strings.Builder
	for _, format := range text.Formats {
		all.WriteString(newWorld(t, newFake()).record("ls", "--outside", "-o", format) + "\n")
	}
	golden(t, "ls outside", all.String())
	w := newWorld(t, newFake())
	w.host.orphans = nil
	if code, _, stderr := w.run("ls", "--outside"); code != api.ExitUnsupported || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d, %q", code, stderr)
	}
}
