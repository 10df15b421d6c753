package main

import (
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
	found := &api.Delegated{Broker: "tmux", State: "attributed", Process: &api.Process{Ref: ref(5200), Comm: "sh"},
		Evidence: &api.Evidence{Kind: "adopted", Source: "socket", Confidence: "weak"}, Session: "k3x9q2"}
	return &api.Orphans{Items: []api.Orphan{
		{Process: by(live(4130, "sleep", "300"), 4122, 4100), Why: api.WhyOrphan, SessionName: "build"},
		zombie(4127, 4123, "k3x9q2"), zombie(4129, 4123, "k3x9q2"), zombie(4131, 900, "m8p4z1"),
		{Process: left, Why: api.WhyLeftover},
		{Process: pane, Why: api.WhyOrphan, Delegated: found},
		{Process: asker, Why: api.WhyDelegated, SessionName: "build", Delegated: &api.Delegated{Broker: "cron", State: "unattributed", Asked: &asker}},
	}}
}

// hostOrphans has an orphan that is listed and also started a session, a member, a process
// that is gone, and the daemon.
func hostOrphans() []text.HostOrphan {
	orphan := func(pid int) text.HostOrphan {
		return text.HostOrphan{Process: api.Process{Ref: api.Ref{PID: pid}, Comm: "vi\x1bte", UID: new(1000), Started: at(-7200), RSSBytes: 5 << 20}}
	}
	listed := orphan(900)
	listed.Ports, listed.DeletedDir, listed.Terminal = []api.Port{
		{Proto: "tcp", Addr: "127.0.0.1", Port: 5173},
		{Proto: "tcp", Addr: "127.0.0.1", Port: 5174, PID: 4130},
	}, "/tmp/a\nb", "/dev/pts/3"
	return []text.HostOrphan{listed, orphan(4130), orphan(9999), orphan(700)}
}

// Members, what members hold, and the daemon are not orphans outside sessions.
func TestHostOrphans(t *testing.T) {
	var all strings.Builder
	for _, format := range text.Formats {
		all.WriteString(newWorld(t, newFake()).record("ls", "--outside", "-o", format) + "\n")
	}
	golden(t, "ls outside", all.String())
}
