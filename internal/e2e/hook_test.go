//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// hooked runs a script as an agent whose name is not a shell's, with a function that calls
// its hook.
func hooked(i *stage.Instance, m *stage.Marker, script string) (p *stage.Process) {
	i.T.Helper()
	agent := filepath.Join(i.Dir, "lngtest-agent")
	if err := os.Symlink("/bin/bash", agent); err != nil && !os.IsExist(err) {
		i.T.Fatal(err)
	}
	cmd := exec.Command(agent, "-c", `hook() { printf '{"hook_event_name": "%s", "session_id": "s"}' "$1" | sh -c "$LNGTEST_LINEAGE hook lngtest-agent"; echo "exit $?"; }
call() { printf '{"hook_event_name": "%s", "session_id": "s", "tool_name": "Bash", "tool_use_id": "%s"}' "$1" "$2" | sh -c "$LNGTEST_LINEAGE hook lngtest-agent"; echo "exit $?"; }
exec 9>"$LNGTEST_MARKER"
`+script)
	cmd.Env = append(os.Environ(), m.Env()...)
	cmd.Env = append(cmd.Env, "LINEAGE_SOCKET="+i.Socket, "LNGTEST_LINEAGE="+stage.Lineage, "XDG_RUNTIME_DIR="+i.Dir)
	stage.Urgent(func() { p = stage.Start(i.T, cmd) }) // a hook gives up after 200 ms
	return p
}

// The first hook makes a session of the agent, a second one does not, and the last one names
// the processes that listen on a port. The agent itself may do what it says, and lives.
func TestHooks(t *testing.T) {
	i := stage.NewDaemon(t)
	m := stage.NewMarker(t, i.Dir)
	p := hooked(i, m, `hook SessionStart; hook SessionStart; hook Notification
(setsid `+stage.Program("port")+` 0 &)
echo started >&9
read -r go <"$LNGTEST_MARKER.go"
said=$(hook Stop); echo "$said"
advice=${said#*end it: lineage }
$LNGTEST_LINEAGE ${advice%%\"*} --yes >/dev/null; echo "ended $?"; exit 0`)
	hold := m.Path + ".go"
	require.NoError(t, unix.Mkfifo(hold, 0o600))
	m.Line("started", 1)
	port := m.Line("port", 1)[0]
	name := fmt.Sprintf("lngtest-agent-%d", p.Process.Pid)
	i.Agrees("the agent's session", func() error {
		items := stage.Query[api.Sessions](i, "ls").Items
		if len(items) != 1 || items[0].Name != name || items[0].Root.PID != p.Process.Pid ||
			fmt.Sprint(items[0].Ports) != "["+port+"]" {
			return fmt.Errorf("%+v", items)
		}
		return nil
	})
	require.NoError(t, os.WriteFile(hold, []byte("go\n"), 0))
	p.Wait()
	m.Gone()
	out := p.Out.String()
	if !strings.Contains(out, "lngtest-port") || !strings.Contains(out, "listens on port "+port) ||
		strings.Count(out, "systemMessage") != 1 || strings.Count(out, "exit 0") != 4 {
		t.Errorf("%v", p)
	}
	if !strings.Contains(out, " --branch\"") || !strings.HasSuffix(out, "ended 0\n") {
		t.Errorf("the advice: %v", p)
	}
}

// An agent that started while the daemon was stopped, or before it, is in a session after the first
// hook that the daemon answers, whichever that is.
func TestHooksLate(t *testing.T) {
	for _, name := range []string{"SessionStart", "PreToolUse", "PostToolUse", "Stop"} {
		for _, missing := range []string{"stopped", "absent"} {
			t.Run(name+", "+missing, func(t *testing.T) {
				i := stage.New(t)
				m := stage.NewMarker(t, i.Dir)
				hold := m.Path + ".go"
				require.NoError(t, unix.Mkfifo(hold, 0o600))
				var d *stage.Process
				if missing == "stopped" {
					d = i.Daemon()
					require.NoError(t, d.Process.Signal(syscall.SIGSTOP))
					t.Cleanup(func() { _ = d.Process.Signal(syscall.SIGCONT) })
				}
				p := hooked(i, m, `hook SessionStart; call PreToolUse one
echo missed >&9
read -r go <"$LNGTEST_MARKER.go"
call `+name+` two
(setsid `+stage.Program("port")+` 0 &)
read -r go <"$LNGTEST_MARKER.go"; exit 0`)
				m.Line("missed", 1)
				if d == nil {
					i.Daemon()
				} else if err := d.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				i.Until("daemon that answers", func() bool { return i.Version() != nil })
				proceed := func() {
					require.NoError(t, os.WriteFile(hold, []byte("go\n"), 0))
				}
				stage.Urgent(proceed)
				port := m.Line("port", 1)[0]
				out := i.Must("why", ":"+port).Out.String()
				if begins := name == "PreToolUse"; !strings.Contains(out, fmt.Sprintf("lngtest-agent-%d", p.Process.Pid)) ||
					strings.Contains(out, "started by tool call Bash two") != begins {
					t.Error(out)
				}
				proceed()
				p.Wait()
				m.Gone()
				if out := p.Out.String(); strings.Count(out, "no daemon answers") != 1 ||
					strings.Count(out, "exit 0") != 3 || p.Err.Len() != 0 {
					t.Errorf("%v", p)
				}
			})
		}
	}
}

// In a terminal, what runs the user's shells is not an agent: it gets no session.
func TestHookByHand(t *testing.T) {
	i := stage.NewDaemon(t)
	cmd := exec.Command("/bin/bash", "-c", `exec -a tmux /bin/bash -c 'echo "{\"hook_event_name\":\"SessionStart\"}" | `+stage.Lineage+` hook lngtest-agent; exit $?'`)
	cmd.Env = append(os.Environ(), "LINEAGE_SOCKET="+i.Socket, "XDG_RUNTIME_DIR="+i.Dir)
	p := stage.Start(t, cmd).Wait()
	if n := len(stage.Query[api.Sessions](i, "ls").Items); n != 0 || p.Code() != 0 ||
		!strings.Contains(p.Out.String(), "no program of this agent is above its hook") {
		t.Errorf("%d sessions, %v", n, p)
	}
}

// Under sudo setup changes the calling user's file, with that user's rights: a directory
// that only root may write stays as it is.
func TestSetupUnderSudo(t *testing.T) {
	i := stage.New(t)
	home := filepath.Join(i.Dir, "home") // nobody's, in a passwd of the test's own
	passwd := filepath.Join(i.Dir, "passwd")
	require.NoError(t, os.WriteFile(passwd, []byte("root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::"+home+":/bin/sh\n"), 0o644))
	require.NoError(t, unix.Mount(passwd, "/etc/passwd", "", unix.MS_BIND, ""))
	defer unix.Unmount("/etc/passwd", 0)
	require.NoError(t, os.Mkdir(home, 0o755))
	env := []string{"SUDO_UID=65534", "SUDO_USER=nobody"}
	p := i.Start([]string{"setup", "claude-code", "--yes"}, env).Wait()
	if p.Code() != 1 || !strings.Contains(p.Err.String(), "permission denied") ||
		strings.Count(p.Err.String(), "\n") != 1 {
		t.Errorf("%v", p)
	}
	require.NoError(t, os.Chown(home, stage.Nobody, stage.Nobody))
	if p := i.Start([]string{"setup", "claude-code", "--yes"}, env).Wait(); p.Code() != 0 {
		t.Errorf("%v", p)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(home, ".claude/settings.json"), &st); err != nil ||
		st.Uid != stage.Nobody || st.Gid != stage.Nobody {
		t.Errorf("%v, of %d:%d", err, st.Uid, st.Gid)
	}
}
