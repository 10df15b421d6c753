//go:build linux

package recipes

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Every recipe has a test here.
func TestNames(t *testing.T) {
	want := []string{"actions-hook", "actions-step", "agents-check", "agents-policy", "api.js", "api.py", "buildkite-hook", "claude-function",
		"claude-setup", "codex-exec", "command", "cron", "dockerfile", "gitlab", "jenkins", "leaks", "leftovers-slack", "systemd"}
	if got := slices.Sorted(maps.Keys(blocks(t))); !slices.Equal(got, want) {
		t.Errorf("recipes %v, want %v", got, want)
	}
}

func TestCommand(t *testing.T) {
	k := newKitchen(t, "make")
	p := k.start(nil, "sh", "-c", recipe(t, "command")).Wait()
	k.marker.MustBeGone()
	k.ran("make -j4")
	if p.Code() != 3 || !strings.Contains(p.Err.String(), "1 process was left over when make exited; ended, clean: ") {
		t.Errorf("%v", p)
	}
}

// Each command leaves a process, which is named, and exits with 0.
func TestLeaks(t *testing.T) {
	k := newKitchen(t, "go", "pytest", "npm", "make")
	for _, line := range strings.Split(strings.TrimSpace(recipe(t, "leaks")), "\n") {
		p := k.start([]string{"LNGTEST_CODE=0"}, "sh", "-c", line).Wait()
		k.marker.MustBeGone()
		if p.Code() != 123 || !strings.Contains(p.Err.String(), "1 process was alive ") {
			t.Errorf("%s: %v", line, p)
		}
	}
}

func TestClaudeFunction(t *testing.T) {
	for name, want := range map[string]string{"claude": "claude -p two words", "codex": "codex --no-daemon -p two words"} {
		k := newKitchen(t, name)
		p := k.start(nil, "bash", "-c", recipe(t, "claude-function")+name+` -p "two words"`).Wait()
		k.marker.MustBeGone()
		k.ran(want)
		if p.Code() != 3 || p.Err.Len() != 0 {
			t.Errorf("%v", p)
		}
	}
}

// A second agent starts from the same shell while the first one runs.
func TestClaudeFunctionTwice(t *testing.T) {
	k := newKitchen(t)
	k.program("claude", `echo "ran claude" >&9
read -r go <"$LNGTEST_GO"`)
	hold := filepath.Join(k.Dir, "go")
	require.NoError(t, exec.Command("mkfifo", hold).Run())
	p := k.start([]string{"LNGTEST_GO=" + hold}, "bash", "-c", recipe(t, "claude-function")+"claude & claude & wait")
	k.marker.Line("ran", 2)
	require.Equal(t, len(stage.Query[api.Sessions](k.Instance, "ls").Items), 2)
	both, err := os.OpenFile(hold, os.O_RDWR, 0) // open until both have read
	require.NoError(t, err)
	defer both.Close()
	_, err = both.WriteString("go\ngo\n")
	require.NoError(t, err)
	p.Wait()
	k.marker.MustBeGone()
	if p.Err.Len() != 0 {
		t.Errorf("%v", p)
	}
}

// The agent runs its hooks by sh, with a document on stdin. It is a session when the first one
// returns, with what it had started.
func TestClaudeSetup(t *testing.T) {
	k := newKitchen(t)
	if p := k.start(nil, "sh", "-c", recipe(t, "claude-setup")).Wait(); p.Code() != 0 {
		t.Fatal(p)
	}
	text := require.ReadFile(t, filepath.Join(k.Dir, ".claude/settings.json"))
	var settings struct {
		Hooks map[string][]struct {
			Hooks []struct{ Type, Command string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &settings))
	var env []string
	for event, groups := range settings.Hooks {
		if len(groups) != 1 || len(groups[0].Hooks) != 1 || groups[0].Hooks[0].Type != "command" {
			t.Fatalf("%s: %+v", event, groups)
		}
		env = append(env, event+"="+groups[0].Hooks[0].Command)
	}
	// A hook adopts only a process that runs the agent's own program.
	k.program("claude", `sleep 301 &
run() { printf '{"session_id": "abc", "hook_event_name": "%s"}' "$1" | sh -c "$2" || echo "failed $1" >&9; }
run SessionStart "$SessionStart"
run SessionStart "$SessionStart" # once more: resumed
(setsid sleep 302 &)
run Stop "$Stop"
echo hooked >&9
read -r go <"$LNGTEST_GO"
exit 3`)
	hold := filepath.Join(k.Dir, "go")
	require.NoError(t, exec.Command("mkfifo", hold).Run())
	var agent *stage.Process
	stage.Urgent(func() { // a hook gives up after 200 ms
		agent = k.start(append(env, "LNGTEST_GO="+hold), filepath.Join(k.bin, "claude"))
	})
	k.marker.Line("hooked", 1)
	if failed := k.marker.Lines("failed"); len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
	name := fmt.Sprintf("claude-code-%d", agent.Process.Pid)
	k.Agrees("members", func() error {
		if s := k.Session(name); s.Root == nil || s.Root.PID != agent.Process.Pid || s.Live != 3 {
			return fmt.Errorf("%+v, want the agent and two sleeps", s)
		}
		return nil
	})
	require.NoError(t, os.WriteFile(hold, []byte("go\n"), 0))
	agent.Wait()
	k.marker.Gone()
}

func TestCodexExec(t *testing.T) {
	k := newKitchen(t, "codex")
	k.start(nil, "sh", "-c", recipe(t, "codex-exec")).Wait()
	k.marker.MustBeGone()
	k.ran("codex exec fix the failing test")
	if r := stage.Report(t, filepath.Join(k.Dir, "codex.json")); r.Verdict != "clean" || len(r.Processes) != 1 {
		t.Errorf("%+v", r)
	}
}

// Only checked: a daemon would apply it to the programs of this machine.
func TestAgentsPolicy(t *testing.T) {
	k := newKitchen(t)
	k.file("policy.yaml", recipe(t, "agents-policy"))
	p := k.start(nil, "sh", "-c", recipe(t, "agents-check")).Wait()
	if p.Code() != 0 || !strings.HasPrefix(p.Out.String(), "policy.yaml: ok, mode enforce, ") {
		t.Errorf("%v", p)
	}
}

// killed kills a child, which has the shell's name as it never execs, and exits as shells do then.
const killed = "(kill -STOP $BASHPID) & kill -9 $!; wait $!"

// names demands that the step after a job names the process that killed the child, and nothing else.
func names(t *testing.T, said, sender string) {
	t.Helper()
	by := regexp.MustCompile(`(?m)^.*killed by SIGKILL from [0-9]+ ` + sender + `, a member of this session.*\n`)
	if left := by.ReplaceAllString(said, ""); left != "" || said == "" {
		t.Errorf("%q", said)
	}
}

// sudo as on a runner: no password, its own path, no environment.
const sudo = `exec env -i PATH="${0%/*}:/usr/sbin:/usr/bin:/sbin:/bin" SUDO_UID=65534 SUDO_USER=nobody \
	LINEAGE_SOCKET="$LINEAGE_SOCKET" LNGTEST_MARKER="$LNGTEST_MARKER" "$@"`

func TestActionsStep(t *testing.T) {
	var steps []struct{ Name, If, Run string }
	if err := yaml.Unmarshal([]byte(recipe(t, "actions-step")), &steps); err != nil || len(steps) != 2 || steps[1].If != "failure()" {
		t.Fatalf("%v %+v", err, steps)
	}
	k := newKitchen(t)
	k.program("sudo", sudo)
	k.program("npm", `echo "ran npm $* as $(id -un), tool $(command -v lngtest-tool)" >&9; (setsid sleep 300 &); `+killed)
	tools := filepath.Join(k.Dir, "tools")
	require.NoError(t, os.Mkdir(tools, 0o755))
	k.file("tools/lngtest-tool", "")
	temp := filepath.Join(k.Dir, "temp") // the runner's, as the workspace is
	require.NoError(t, errors.Join(os.Mkdir(temp, 0o755), os.Chown(temp, stage.Nobody, stage.Nobody)))
	step := func(script string) *stage.Process {
		env := []string{"USER=nobody", "RUNNER_TEMP=" + temp, "PATH=" + tools + ":" + k.bin + ":" + os.Getenv("PATH")}
		return k.start(env, "bash", "-e", k.file("step.sh", script)).Wait()
	}
	p := step(steps[0].Run)
	k.marker.MustBeGone()
	if p.Code() != 137 {
		t.Errorf("%v", p)
	}
	require.Contains(t, p.Err.String(), " npm, its child, was killed by SIGKILL from ")
	names(t, step(steps[1].Run).Out.String(), "npm")
	k.ran("npm test as nobody, tool " + tools + "/lngtest-tool")
	_, err := os.Stat(filepath.Join(temp, "lineage.json"))
	require.NoError(t, err)
}

// A worker runs the hook, then the steps of its job, and exits.
func TestActionsHook(t *testing.T) {
	k := newKitchen(t)
	script := k.file("job-started.sh", recipe(t, "actions-hook"))
	k.program("lngtest-worker", `bash -e "$1" || exit 9
bash -e -c '(setsid sleep 300 &)'
lineage ls -o jsonl >ls
exit 0`)
	p := k.start([]string{"GITHUB_RUN_ID=17", "GITHUB_RUN_ATTEMPT=2"}, filepath.Join(k.bin, "lngtest-worker"), script).Wait()
	k.marker.Gone()
	ls, err := os.ReadFile(filepath.Join(k.Dir, "ls"))
	if p.Code() != 0 || err != nil || !strings.Contains(string(ls), `"name":"job-17-2"`) {
		t.Errorf("%v %v %s", p, err, ls)
	}
}

// A job's script, as each CI system runs it: by a shell, with its variables. What the job leaves
// ends with it, and the exit code is the job's.
func TestJobs(t *testing.T) {
	var gitlab struct {
		Test struct {
			Script []string
			After  []string `yaml:"after_script"`
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(recipe(t, "gitlab")), &gitlab))
	jenkins := regexp.MustCompile(`sh '(.*)'`).FindAllStringSubmatch(recipe(t, "jenkins"), -1)
	require.Equal(t, len(jenkins), 2)
	for _, job := range []struct {
		system, script, after, env, name string
	}{
		{"gitlab", strings.Join(gitlab.Test.Script, "\n"), strings.Join(gitlab.Test.After, "\n"), "CI_JOB_ID=4711", "job-4711"},
		{"jenkins", jenkins[0][1], jenkins[1][1], "BUILD_TAG=jenkins-app-7", "jenkins-app-7"},
		{"buildkite", recipe(t, "buildkite-hook"), "", "BUILDKITE_JOB_ID=0191-ab", "job-0191-ab"},
	} {
		t.Run(job.system, func(t *testing.T) {
			k := newKitchen(t)
			k.program("make", `echo "ran make $*" >&9; (setsid sleep 301 &); `+killed)
			p := k.start([]string{job.env, "BUILDKITE_COMMAND=make test"}, "bash", "-e", k.file("job.sh", job.script)).Wait()
			k.marker.MustBeGone()
			k.ran("make test")
			require.Contains(t, p.Err.String(), " make, its child, was killed by SIGKILL from ")
			if p.Code() != 137 || !strings.Contains(p.Err.String(), "1 process was left over when ") {
				t.Errorf("%v", p)
			}
			if job.after != "" {
				names(t, k.start([]string{job.env}, "bash", "-e", k.file("after.sh", job.after)).Wait().Out.String(), "make")
			}
			if past := stage.Query[api.Sessions](k.Instance, "history"); len(past.Items) != 1 || past.Items[0].Name != job.name {
				t.Errorf("%+v, want a session called %q", past.Items, job.name)
			}
		})
	}
}

// Leftovers are sent once they exist, and nothing before.
func TestLeftoversSlack(t *testing.T) {
	stage.Need(t, "deps", "jq")
	k := newKitchen(t)
	k.program("hostname", "echo host")
	k.program("curl", `while [ "$1" != -d ]; do shift; done
echo "sent $2 to $3" >&9`)
	script := k.file("leftovers", recipe(t, "leftovers-slack"))
	send := func() {
		t.Helper()
		if p := k.start([]string{"SLACK_URL=https://slack.example"}, "sh", script).Wait(); p.Code() != 0 || p.Err.Len() != 0 {
			t.Errorf("%v", p)
		}
	}
	send()
	require.Equal(t, len(k.marker.Lines("sent")), 0)
	k.start(nil, "sh", "-c", "lineage run -q --on-exit report --name lngtest-slack -- sh -c 'sleep 300 &'").Wait()
	require.Equal(t, k.Session("lngtest-slack").Live, 1)
	send()
	k.marker.Line("sent", 1)
	sent := k.marker.Lines("sent")
	require.Equal(t, len(sent), 1)
	if got := strings.Join(sent[0], " "); !regexp.MustCompile(`^\{"text":"leftovers on host: \[\d+\]"\} to https://slack.example$`).MatchString(got) {
		t.Errorf("sent %s", got)
	}
	k.start(nil, "sh", "-c", "lineage end lngtest-slack --now --yes").Wait()
	k.marker.MustBeGone()
}

// systemd accepts the unit, and its processes react to a stop as the unit says.
func TestSystemdUnit(t *testing.T) {
	k := newKitchen(t)
	k.program("worker", `trap 'echo "told TERM" >&9; exit 0' TERM
(setsid sleep 300 &)
echo "ran worker" >&9
while :; do sleep 60 & wait; done`)
	text := recipe(t, "systemd")
	unit := k.file("worker.service", text)
	require.NoError(t, os.Chmod(unit, 0o644))
	if _, err := exec.LookPath("systemd-analyze"); err == nil {
		verify := k.installed(nil, "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit).Wait()
		if verify.Code() != 0 || verify.Err.Len() != 0 {
			t.Errorf("%v", verify)
		}
	}
	_, command, _ := strings.Cut(text, "\nExecStart=")
	command, _, _ = strings.Cut(command, "\n")
	p := k.installed(nil, strings.Fields(command)...)
	k.marker.Line("ran", 1)
	require.NoError(t, p.Process.Signal(unix.SIGTERM)) // KillMode=mixed: to the main process only
	p.Wait()
	k.marker.MustBeGone()
	if told := k.marker.Lines("told"); len(told) != 1 || p.Code() != 0 {
		t.Errorf("told %v, %v", told, p)
	}
}

// The entry point is PID 1 of a PID namespace, as in a container.
func TestDockerfile(t *testing.T) {
	var entry, args []string
	for line := range strings.Lines(recipe(t, "dockerfile")) {
		for word, to := range map[string]*[]string{"ENTRYPOINT ": &entry, "CMD ": &args} {
			if rest, ok := strings.CutPrefix(line, word); ok {
				if err := json.Unmarshal([]byte(rest), to); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
			}
		}
	}
	k := newKitchen(t, "worker")
	p := k.installed(nil, slices.Concat([]string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}, entry, args)...).Wait()
	k.marker.MustBeGone()
	k.ran("worker")
	if p.Code() != 3 || !strings.Contains(p.Err.String(), "1 process was left over when worker exited; ended, clean: ") {
		t.Errorf("%v", p)
	}
}

// Two runs at once, as cron starts them: the second is refused.
func TestCron(t *testing.T) {
	line := strings.Fields(recipe(t, "cron"))
	if line[5] != "root" {
		t.Fatalf("line %q", line)
	}
	command := strings.Join(line[6:], " ")
	k := newKitchen(t)
	k.program("sync-all", `echo "ran sync-all" >&9
(setsid sleep 300 &)
read -r go <"$LNGTEST_GO"`)
	hold := filepath.Join(k.Dir, "go")
	require.NoError(t, exec.Command("mkfifo", hold).Run())
	job := func() *stage.Process {
		return k.installed(nil, "env", "-i", "HOME=/root", "LOGNAME=root", "SHELL=/bin/sh", "PATH=/usr/bin:/bin",
			"LINEAGE_SOCKET="+k.Socket, "LNGTEST_MARKER="+k.marker.Path, "LNGTEST_GO="+hold, "/bin/sh", "-c", command)
	}
	first := job()
	k.marker.Line("ran", 1)
	second := job().Wait()
	if second.Code() != 125 || !strings.Contains(second.Err.String(), "sync") {
		t.Errorf("%v", second)
	}
	require.NoError(t, os.WriteFile(hold, []byte("go\n"), 0))
	first.Wait()
	k.marker.MustBeGone()
	k.ran("sync-all")
	if first.Code() != 0 || first.Err.Len() != 0 {
		t.Errorf("%v", first)
	}
}

func TestAPI(t *testing.T) {
	for name, program := range map[string]string{"api.py": "python3", "api.js": "node"} {
		t.Run(name, func(t *testing.T) {
			stage.Need(t, "deps", program)
			k := newKitchen(t)
			script := k.file(name, recipe(t, name))
			run := k.Run(k.marker, []string{"--name", "lngtest-api"}, "daemonise", "stay")
			k.marker.Ready()
			id := k.Session("lngtest-api").ID

			if p := k.start(nil, program, script).Wait(); p.Code() != 0 || p.Out.String() != id+" lngtest-api active 2 live\n" {
				t.Errorf("%v", p)
			}
			p := k.start(nil, program, script, "lngtest-api").Wait()
			if p.Code() != 0 || !strings.HasSuffix(p.Out.String(), "\nlngtest-api clean\n") {
				t.Errorf("%v", p)
			}
			k.marker.MustBeGone()
			run.Wait()
			if p := k.start(nil, program, script, "lngtest-none").Wait(); p.Code() != 1 || !strings.Contains(p.Err.String(), "not found") {
				t.Errorf("%v", p)
			}
		})
	}
}
