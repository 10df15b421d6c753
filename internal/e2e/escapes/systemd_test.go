//go:build linux

package escapes

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// managed are the ways to let systemd contain everything. Each sends SIGKILL to the whole
// unit, which systemd repeats until the cgroup is empty.
var managed = []*tool{
	{name: "`systemd-run --scope`",
		leaves: "what moved to another cgroup",
		wrap:   func(x *match) []string { return x.inUnit("scope", "--scope") }, end: func(x *match) { x.stopUnit() }},
	{name: "`systemd-run --user --scope`",
		leaves: "the same",
		wrap:   func(x *match) []string { return x.inUnit("scope", "--user", "--scope") }, end: func(x *match) { x.stopUnit("--user") }},
	{name: "`systemd-run`, a service",
		leaves: "the same; the command does not run in the caller's terminal, environment and limits", service: true,
		wrap: func(x *match) []string { return x.inUnit("service", "--service-type=exec") }, end: func(x *match) { x.stopUnit() }},
}

// TestSystemdRun is TestOthers for systemd-run, where systemd runs: make compare-systemd.
func TestSystemdRun(t *testing.T) {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		t.Skip("systemd does not run here; see make compare-systemd")
	}
	compared(t, managed)
}

// inUnit returns the words that start a command in a unit of the trial.
func (x *match) inUnit(kind string, options ...string) []string {
	x.unit = "lngtest-" + strings.TrimPrefix(filepath.Base(x.m.Path), "marker-") + "." + kind
	return slices.Concat([]string{"systemd-run", "--quiet", "--collect", "--unit=" + x.unit, "-p", "KillSignal=SIGKILL"}, options, []string{"--"})
}

// stopUnit ends what the unit still holds. An empty unit is already gone.
func (x *match) stopUnit(options ...string) {
	out, err := exec.Command("systemctl", append(options, "stop", x.unit)...).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "not loaded") {
		x.t.Fatalf("stop %s: %v: %s", x.unit, err, out)
	}
}

// startService has systemd start the program, in a shell that waits until it is the root of
// a session, which ends what is left after the trial.
func (x *match) startService() {
	x.t.Helper()
	gate := filepath.Join(x.Dir, "gate")
	os.Remove(gate)
	require.NoError(x.t, unix.Mkfifo(gate, 0o600))
	argv := stage.Argv(x.expand(x.program))
	start := x.tool.wrap(x)
	for _, variable := range x.m.Env() {
		start = slices.Insert(start, len(start)-1, "--setenv="+variable)
	}
	start = slices.Concat(start, []string{"sh", "-c", `read -r _ <"$0"; exec "$@"`, gate}, argv)
	if out, err := exec.Command(start[0], start[1:]...).CombinedOutput(); err != nil {
		x.t.Fatalf("%q: %v: %s", start, err, out)
	}
	out, err := exec.Command("systemctl", "show", "--value", "-p", "MainPID", x.unit).Output()
	if x.first, _ = strconv.Atoi(strings.TrimSpace(string(out))); err != nil || x.first == 0 {
		x.t.Fatalf("no process of %s: %v", x.unit, err)
	}
	x.root = x.first
	x.Must("adopt", "--name", x.name, "--grace", "0s", "--on-exit", "report", strconv.Itoa(x.first))
	require.NoError(x.t, os.WriteFile(gate, []byte("\n"), 0))
	x.m.Wait("ready", func(bool) bool { return len(x.m.Lines("ready")) > 0 })
	if x.members > 0 {
		x.m.Members(x.members)
	}
}
