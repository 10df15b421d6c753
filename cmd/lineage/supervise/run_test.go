//go:build linux

package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// runCmd is `lineage run -- args` as a child of the test.
func runCmd(t *testing.T, s script, args ...string) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(s)
	require.NoError(t, err)
	cmd := exec.Command(self(t), args...)
	cmd.Env = append(os.Environ(), "LNGTEST_RUN="+string(b))
	return cmd
}

// shell is a shell in which $LNG is `lineage run`.
func shell(t *testing.T, text string) *exec.Cmd {
	t.Helper()
	cmd := runCmd(t, script{})
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", text}
	cmd.Env = append(cmd.Env, "LNG="+self(t))
	return cmd
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return exe
}

type result struct {
	code           int
	stdout, stderr string
}

func run(t *testing.T, s script, args ...string) result {
	t.Helper()
	return finish(t, runCmd(t, s, args...))
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func TestExitCode(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), mode))
		return name
	}
	plain := write("lngtest-plain", "#!/bin/sh\n", 0o644)
	bare := write("lngtest-bare", "exit 9\n", 0o755)
	lost := write("lngtest-lost", "#!/nonexistent/interpreter\n", 0o755)
	minus, long := int64(-1000), int64(601_000)

	for _, c := range []struct {
		name string
		set  func(*script)
		args []string
		code int
		says string // on stderr; "" nothing
	}{
		{name: "zero", args: []string{"true"}},
		{name: "seven", args: []string{"sh", "-c", "exit 7"}, code: 7},
		{name: "255", args: []string{"sh", "-c", "exit 255"}, code: 255},
		{name: "signal", args: []string{"sh", "-c", "kill -TERM $$"}, code: 143,
			says: " was killed by SIGTERM; the sender is not known\n"},
		{name: "kill", args: []string{"sh", "-c", "kill -KILL $$"}, code: 137,
			says: " was killed by SIGKILL; the sender is not known\n"},
		{name: "not found", args: []string{"lngtest-nowhere"}, code: 127, says: ": lngtest-nowhere: no such file or directory\n"},
		{name: "path not found", args: []string{"/nonexistent/lngtest"}, code: 127, says: "no such file"},
		{name: "interpreter not found", args: []string{lost}, code: 127, says: "no such file"},
		{name: "not executable", args: []string{plain}, code: 126, says: "permission denied"},
		{name: "directory", args: []string{dir}, code: 126, says: "permission denied"},
		{name: "below a file", args: []string{plain + "/x"}, code: 126, says: "not a directory"},
		{name: "script without interpreter line", args: []string{bare}, code: 9},
		{name: "empty name", args: []string{""}, code: 127, says: `: "": no such file or directory`},
		{name: "grace below", set: func(s *script) { s.Options.GraceMS = &minus }, args: []string{"true"}, code: 125, says: "grace -1s"},
		{name: "grace above", set: func(s *script) { s.Options.GraceMS = &long }, args: []string{"true"}, code: 125, says: "grace 10m1s"},
		{name: "no daemon", set: func(s *script) { s.NoDaemon = true }, args: []string{"true"}, code: 125, says: "no daemon"},
		{name: "refused", set: func(s *script) { s.Refusal = api.NewError(api.CodeBusyName, "name x is taken", "choose another") },
			args: []string{"true"}, code: 125, says: "lineage: name x is taken; choose another\n"},
		{name: "no such user", set: func(s *script) { s.Options.User = "lngtest-nobody" }, args: []string{"true"}, code: 125, says: "lngtest-nobody"},
		{name: "report nowhere", set: func(s *script) { s.Options.Report = "/nonexistent/r.json" }, args: []string{"true"}, code: 125, says: "/nonexistent/r.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s script
			if c.set != nil {
				c.set(&s)
			}
			check := func(t *testing.T, verb string, cmd *exec.Cmd) {
				got := finish(t, cmd)
				if got.code != c.code || got.stdout != "" {
					t.Errorf("exit code %d, want %d; stdout %q", got.code, c.code, got.stdout)
				}
				if strings.HasPrefix(c.says, ": ") && !strings.HasPrefix(got.stderr, "lineage: "+verb+c.says) {
					t.Errorf("stderr %q, want %s%s", got.stderr, verb, c.says)
				}
				switch {
				case verb == "init" && c.code > 128 && c.says != "" && got.stderr == "":
					// it names no sender
				case c.says == "" && got.stderr != "":
					t.Errorf("stderr %q, want none", got.stderr)
				case !strings.Contains(got.stderr, c.says), strings.Count(got.stderr, "\n") > 1:
					t.Errorf("stderr %q, want one line with %q", got.stderr, c.says)
				}
			}
			check(t, "run", runCmd(t, s, c.args...))
			if c.set == nil {
				asBoth(t, func(t *testing.T, pid1 bool) { check(t, "init", initCmd(t, pid1, Options{Quiet: true}, c.args...)) })
			}
		})
	}
}

// The codes of exec failures are those of env(1), found by asking it.
func TestExitCodeIsThatOfEnv(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "lngtest-noise")
	require.NoError(t, os.WriteFile(name, []byte("\x7fELF nonsense"), 0o755))
	for _, args := range [][]string{{name}, {dir}, {"lngtest-nowhere"}, {name + "/x"}, {"/nonexistent"}} {
		env := finish(t, exec.Command("env", args...))
		if got := run(t, script{}, args...); got.code != env.code {
			t.Errorf("%v: exit code %d, env has %d", args, got.code, env.code)
		}
	}
}

func TestCreateBeforeTheCommandRuns(t *testing.T) {
	dir := t.TempDir()
	s := script{Log: filepath.Join(dir, "log")}
	grace := int64(1500)
	s.Options.Name, s.Options.GraceMS, s.Options.OnExit = "nightly", &grace, OnExitReport
	got := run(t, s, "sh", "-c", `echo $$ $LINEAGE_SESSION $LINEAGE_TOKEN "$1"`, "sh", "\xff arg")
	var pid int
	if _, err := fmt.Sscan(got.stdout, &pid); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	require.Equal(t, got.stdout, fmt.Sprintf("%d k3x9q2 lngtest-token \xff arg\n", pid))
	log := require.ReadFile(t, s.Log)
	lines := strings.Split(string(log), "\n")
	want := fmt.Sprintf(`create {"root":{"pid":%d},"name":"nightly","grace_ms":1500,"on_root_exit":"report"} lineage __shim `, pid)
	if lines[0] != "connect" || !strings.HasPrefix(lines[1], want) {
		t.Errorf("calls:\n%s\nwant connect, then %s", log, want)
	}
}

func TestNothingIsStartedForACommandThatIsNone(t *testing.T) {
	s := script{Log: filepath.Join(t.TempDir(), "log")}
	run(t, s, "lngtest-nowhere")
	if log, err := os.ReadFile(s.Log); err == nil {
		t.Errorf("calls: %s", log)
	}
}

// TestExclusive: a name that is not free is 75; of what was ended for it, run names what may be in the way.
func TestExclusive(t *testing.T) {
	busy := api.NewError(api.CodeBusyName, "name x is in use by 0ldone", "choose another")
	port := api.Port{Proto: "tcp", Port: 8080, Connections: 1}
	for _, c := range []struct {
		how     string
		refusal *api.Error
		code    int
		says    string
	}{
		{"fail", busy, 75, "name x is in use by 0ldone; choose another"},
		{"replace", busy, 75, "name x is in use by 0ldone; choose another"},
		{"wait", api.NewError(api.CodeTooMany, "too many", ""), 125, "too many"},
		{"wait", nil, 0, ""},
		{"replace", nil, 0, "run: ended session 0ldone; " + display.Port(&port) + " has 1 connection in TIME_WAIT"},
	} {
		s := script{Log: filepath.Join(t.TempDir(), "log"), Refusal: c.refusal}
		s.Options.Name, s.Options.Exclusive = "x", c.how
		s.Verdict = &api.Report{Session: "k3x9q2", Verdict: api.VerdictClean, PortsTimeWait: []api.Port{port}}
		got := run(t, s, "true")
		says := strings.TrimPrefix(strings.TrimSuffix(got.stderr, "\n"), "lineage: ")
		log := string(require.ReadFile(t, s.Log))
		if got.code != c.code || says != c.says || !strings.Contains(log, `"exclusive":"`+c.how+`"`) {
			t.Errorf("%s: %+v, want %d %q; asked %s", c.how, got, c.code, c.says, log)
		}
	}
}
