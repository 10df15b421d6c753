//go:build linux

package brokers

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// server starts a tmux that no session knows of, and returns its command.
func server(t *testing.T, i *stage.Instance) (command string) {
	t.Helper()
	stage.Need(t, "test-brokers", "tmux")
	socket := filepath.Join(i.Dir, "tmux")
	run := func(args ...string) {
		if out, err := exec.Command("tmux", append([]string{"-f", "/dev/null", "-S", socket}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("tmux: %v: %s", err, out)
		}
	}
	run("new-session", "-d", "sleep 130")
	t.Cleanup(func() { exec.Command("tmux", "-S", socket, "kill-server").Run() })
	return "tmux -S " + socket
}

// What a window runs is shown with the evidence for it, which is weak, and outlives the session. That it ends where the policy
// says so, and with the session's secret, is in the table of escapes.
func TestTmux(t *testing.T) {
	i := policed(t, "end: strong")
	tmux := server(t, i)
	a := ask(i, tmux+" new-window -d 'exec sleep 131'")
	b := a.brokered("attributed", "socket")
	is(t, b, "tmux", "socket", "weak", false)
	why := stage.Query[api.Why](i, "why", fmt.Sprint(b.Process.PID))
	if why.Session == nil || why.Session.DelegatedBy != i.Record("work").ID || why.Delegated == nil || why.Edges[len(why.Edges)-1].Evidence.Confidence != "weak" {
		t.Errorf("%+v", why)
	}
	if text := i.Must("end", "--dry-run", b.Session).Out.String(); !strings.Contains(text, "root (socket), weak") {
		t.Errorf("dry run: %s", text)
	}
	if text := i.Must("ls", "--left").Out.String(); !strings.Contains(text, "delegated (socket), weak") {
		t.Errorf("ls --left: %s", text)
	}
	i.End("work")
	if !alive(b) {
		t.Error("weak evidence ended it")
	}
	a.run.Wait()
	if text := a.run.Err.String(); !strings.Contains(text, "adopted(socket), weak, in session "+b.Session+", not ended with this one") {
		t.Errorf("stderr %q", text)
	}
	i.End(b.Session)
	if out, err := exec.Command("sh", "-c", tmux+" list-windows").CombinedOutput(); err != nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("the server and its first window: %v %s", err, out)
	}
}
