//go:build linux

package stage

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// A Terminal is a screen and a keyboard with a command: the test's own tmux, which
// reads no configuration and serves no other socket.
type Terminal struct {
	*Instance
	server *Process
}

// wrapper runs a command on the terminal, and says when it has ended.
const wrapper = `"$@"; echo "lngtest-after $?"; exec sleep 300`

// TerminalOf runs a command on a terminal of that size, which is closed at the test's end.
func (i *Instance) TerminalOf(width, height int, command ...string) *Terminal {
	i.T.Helper()
	t := &Terminal{Instance: i}
	t.server = Start(i.T, t.tmux("-D")) // in the foreground, so that the test reaps it
	i.Until("tmux that answers", func() bool { return t.server.Exited() || t.tmux("-N", "show-options", "-g").Run() == nil })
	t.do(slices.Concat([]string{"new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), "-c", i.Dir,
		"-e", "LINEAGE_SOCKET=" + i.Socket, "--", "sh", "-c", wrapper, "sh"}, command)...)
	i.T.Cleanup(func() {
		if t.server.Exited() {
			return
		}
		if i.T.Failed() {
			i.T.Logf("the screen:\n%s", t.Screen())
		}
		t.Close()
	})
	return t
}

// Close closes the terminal: its processes get SIGHUP.
func (t *Terminal) Close() {
	t.T.Helper()
	t.do("kill-server")
	t.server.Wait()
}

func (t *Terminal) tmux(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-u", "-S", filepath.Join(t.Dir, "tmux"), "-f", "/dev/null"}, args...)...)
	cmd.Env = append(cmd.Environ(), "TMUX=", "TMUX_PANE=", "NO_COLOR=", "LINEAGE_THEME=")
	return cmd
}

// do runs a tmux command.
func (t *Terminal) do(args ...string) string {
	t.T.Helper()
	out, err := t.tmux(append([]string{"-N"}, args...)...).CombinedOutput()
	if err != nil {
		t.T.Fatalf("tmux %q: %v: %s; its server: %s", args, err, out, t.server.Err.String())
	}
	return string(out)
}

// Press presses keys, by tmux's names for them, all at once.
func (t *Terminal) Press(keys ...string) {
	t.T.Helper()
	t.do(append([]string{"send-keys", "--"}, keys...)...)
}

// Type types a text.
func (t *Terminal) Type(text string) {
	t.T.Helper()
	t.do("send-keys", "-l", "--", text)
}

// Screen is the text on the screen now.
func (t *Terminal) Screen() string {
	t.T.Helper()
	return t.do("capture-pane", "-p")
}

// See presses keys, if any, until the screen is right, and returns it: a dialog ignores keys at first.
func (t *Terminal) See(what string, right func(screen string) bool, keys ...string) string {
	t.T.Helper()
	for deadline := time.Now().Add(Patience); ; <-time.After(20 * time.Millisecond) {
		screen := t.Screen()
		if right(screen) {
			return screen
		}
		if time.Now().After(deadline) {
			t.T.Fatalf("no %s within %v", what, Patience)
		}
		if len(keys) > 0 {
			t.Press(keys...)
		}
	}
}
