//go:build linux

package supervise

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// leaking is a script whose session lives until it is ended, with this receipt.
func leaking(processes ...api.Outcome) script {
	s := script{UntilEnd: true, Verdict: &api.Report{
		Session: "k3x9q2", State: "ended", EndReason: "end", Verdict: api.VerdictClean, Processes: processes,
		PortsFreed: []api.Port{{Proto: "tcp", Addr: "127.0.0.1", Port: 8123, PID: 9}},
	}}
	s.Options.Leaks = LeakCheck{true, 50 * time.Millisecond}
	up := api.Ref{PID: 7}
	s.Alive = &api.Tree{Nodes: []api.Node{
		{Process: api.Process{Ref: up, Comm: "npm", State: api.StateExited}},
		{Process: api.Process{Ref: api.Ref{PID: 9}, Creator: &up, State: api.StateLive}},
		{Process: api.Process{Ref: api.Ref{PID: 8}, Creator: &up, State: api.StateLive}},
	}}
	return s
}

func TestLeaks(t *testing.T) {
	server := api.Outcome{Ref: api.Ref{PID: 9}, Comm: "python3", Outcome: api.OutcomeTerm, Leftover: true}
	kept := api.Outcome{Ref: api.Ref{PID: 8}, Comm: "cache", Outcome: api.OutcomeKept, Leftover: true}
	gone := api.Outcome{Ref: api.Ref{PID: 10}, Comm: "gone", Outcome: api.OutcomeSelf, Leftover: true}
	root := api.Outcome{Ref: api.Ref{PID: rootPID}, Comm: "sh", Outcome: api.OutcomeSelf}
	const names = "lineage: session k3x9q2: 1 process was alive 50ms after sh exited; ended, clean\n" +
		"lineage:   9 python3  SIGTERM: tcp 127.0.0.1:8123, started by 7 npm\n"
	quiet := leaking(root, server)
	quiet.Options.Quiet = true
	shared := leaking(root)
	shared.Verdict.Delegated = []api.Delegated{{Broker: "codex", State: "unattributed", Asked: &api.Process{Ref: api.Ref{PID: 8}, Comm: "codex"}}}
	for _, c := range []struct {
		name   string
		script script
		sh     string
		code   int
		says   string // what stderr begins with
	}{
		{"fail", leaking(root, gone, server), "exit 0", 123, names},
		{"quiet", quiet, "exit 0", 123, names},
		{"the command's own code", leaking(server), "exit 3", 3, names},
		{"kept", leaking(root, kept), "exit 0", 0, ""},
		{"nothing", leaking(root), "exit 0", 0, ""},
		{"gone in time", leaking(root, gone), "exit 0", 0, ""},
		{"what was asked of a shared server", shared, "exit 0", exitFailed,
			"lineage: session k3x9q2: delegated, unattributed: 8 codex asked codex: its shared server is not in this session; use --no-daemon\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.script.Log = filepath.Join(t.TempDir(), "log")
			got := run(t, c.script, "sh", "-c", c.sh)
			said := regexp.MustCompile(`(?m), clean: .* in 0s$`).ReplaceAllString(got.stderr, ", clean")
			if got.code != c.code || !strings.HasPrefix(said, c.says) {
				t.Errorf("got %+v", got)
			}
			log, err := os.ReadFile(c.script.Log)
			require.NoError(t, err)
			require.Contains(t, string(log), `"on_root_exit":"owner"`, "end k3x9q2 now=false")
		})
	}
}

// A session that is over in time is not ended, and one that could not be looked at is a failure.
func TestLeaksInTime(t *testing.T) {
	s := leaking()
	s.UntilEnd, s.Log = false, filepath.Join(t.TempDir(), "log")
	s.Verdict.EndReason, s.Verdict.PortsFreed = "", nil
	if got := run(t, s, "true"); got.code != 0 || got.stderr != "" {
		t.Errorf("got %+v", got)
	}
	if log, _ := os.ReadFile(s.Log); strings.Contains(string(log), "end k3x9q2") {
		t.Errorf("ended:\n%s", log)
	}
	s.Lose, s.Gone = 1, true
	if got := run(t, s, "true"); got.code != 125 || !strings.Contains(got.stderr, "no proof that nothing is left: no answer from the daemon") {
		t.Errorf("got %+v", got)
	}
	s.Gone, s.Lose, s.Verdict.EndReason = false, 0, "max_lifetime"
	s.Verdict.Processes = []api.Outcome{{Ref: api.Ref{PID: 9}, Outcome: api.OutcomeTerm, Leftover: true}}
	if got := run(t, s, "true"); got.code != 124 || !strings.Contains(got.stderr, "ended: max_lifetime reached") {
		t.Errorf("got %+v", got)
	}
}
