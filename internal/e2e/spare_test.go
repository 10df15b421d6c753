//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// killNamed is pkill -9 -f: it kills every process whose command line has the text.
func killNamed(text string) int {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if line, err := os.ReadFile(file); err == nil && pid != os.Getpid() && bytes.Contains(line, []byte(text)) {
			unix.Kill(pid, unix.SIGKILL)
		}
	}
	return 0
}

// killThread is tgkill of a process's first thread.
func killThread(pid string) int {
	n, err := strconv.Atoi(pid)
	if err != nil || unix.Tgkill(n, n, unix.SIGKILL) != nil {
		return 1
	}
	return 0
}

// A stand-in for a coding agent: it runs each line that it reads as a tool call, between two marks.
const spareAgent = `#!/bin/sh
mark() { echo "POST /v1/marks {\"phase\":\"$1\",\"id\":\"call\",\"tool\":\"Bash\",\"agent\":{\"pid\":$$}}" | %[1]s lngtest-inside %[2]s; }
while read -r command; do
	mark begin >/dev/null
	sh -c "$command; true"
	mark end >/dev/null
	echo lives
done
`

// TestSpare: an agent that a tool call of its own kills lives, where the kernel takes a program that refuses
// that. Everywhere the history says who did it, to whom, and in which call. LNGTEST_ROUNDS repeats it.
func TestSpare(t *testing.T) {
	i := stage.New(t)
	i.Daemon("--policy", i.Policy("mode: enforce\nsignals: session\n"+
		"agents:\n  - {name: agent, enabled: true, match: {comm: lngtest-spare}, grace: 0s}\n"))
	refuses := i.Status().RefusesSignals != "none"
	self, err := os.Executable()
	require.NoError(t, err)
	self = i.Copy(self)
	path := filepath.Join(i.Dir, "lngtest-spare")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, spareAgent, self, i.Socket), 0o755))
	p := i.Lineage("run", "--spare", "root", "--", "true")
	require.Equal(t, strings.Contains(p.Err.String(), policy.Unrefused), !refuses)

	ways := []string{"kill -9 $PPID", self + " lngtest-kill " + path, self + " lngtest-tgkill $PPID", "kill -9 0",
		"kill -STOP $PPID; kill -CONT $PPID"}
	rounds, told, lived := tracertest.FromEnv(t, "LNGTEST_ROUNDS", 2), 0, 0
	for range rounds {
		for _, way := range ways {
			pid, lives := spareOne(i, path, way)
			if stops := strings.Contains(way, "STOP"); lives != (refuses || stops) {
				t.Errorf("%s: the agent lives: %v", way, lives)
			}
			lived += map[bool]int{true: 1}[lives]
			told += map[bool]int{true: 1}[spareTold(i, pid, refuses)]
		}
	}
	all := len(ways) * rounds
	require.Equal(t, told, all)
	t.Logf("figure: %d of %d agents lived, %d kills were told with their call; refused: %v", lived, all, told, refuses)
}

// spareOne starts an agent, has it run one tool call, and reports whether it lives afterwards.
func spareOne(i *stage.Instance, path, command string) (pid int, lives bool) {
	cmd := exec.Command(path)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // a call kills the group
	in, err := cmd.StdinPipe()
	require.NoError(i.T, err)
	agent := stage.Start(i.T, cmd)
	pid = cmd.Process.Pid
	i.Until("the agent's session", func() bool {
		return slices.ContainsFunc(stage.Query[api.Sessions](i, "ls").Items,
			func(s api.Session) bool { return s.Root != nil && s.Root.PID == pid && s.Signals != "" })
	})
	fmt.Fprintln(in, command)
	in.Close()
	return pid, strings.Contains(agent.Wait().Out.String(), "lives")
}

// spareTold: an event says who sent the agent a signal, and in which call.
func spareTold(i *stage.Instance, agent int, refused bool) (told bool) {
	i.Until("crossing", func() bool {
		lines := json.NewDecoder(&i.Must("events", "--type", "crossing", "--since", "1h", "-o", "jsonl").Out)
		for {
			var ev api.Event
			if lines.Decode(&ev) != nil {
				return told
			}
			if x := ev.Crossing; x != nil && x.To.PID == agent {
				told = told || x.Refused == refused && len(ev.Process.Calls) == 1 && ev.Process.Calls[0].ID == "call"
			}
		}
	})
	return told
}
