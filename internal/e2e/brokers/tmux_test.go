//go:build linux

package brokers

import (
	"fmt"
	"os"
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

func TestTmux(t *testing.T) {
	for end, dies := range map[string]bool{"strong": false, "all": true} {
		t.Run(end, func(t *testing.T) {
			i := policed(t, "end: "+end)
			tmux := server(t, i)
			a := ask(i, tmux+" new-window -d 'exec sleep 131'")
			b := a.brokered("attributed", "socket")
			is(t, b, "tmux", "socket", "weak", dies)
			why := stage.Query[api.Why](i, "why", fmt.Sprint(b.Process.PID))
			if why.Session == nil || why.Session.BrokeredBy != i.Record("work").ID || why.Brokered == nil || why.Edges[len(why.Edges)-1].Evidence.Confidence != "weak" {
				t.Errorf("%+v", why)
			}
			beside := b.Session
			if text := i.Must("end", "--dry-run", beside).Out.String(); !strings.Contains(text, "root (socket), weak") {
				t.Errorf("dry run: %s", text)
			}
			if text := i.Must("ls", "--left").Out.String(); !strings.Contains(text, "brokered (socket), weak") {
				t.Errorf("ls --left: %s", text)
			}
			i.End("work")
			if dies {
				i.Until("end of the window", func() bool { return !alive(b) })
			} else {
				if !alive(b) {
					t.Error("weak evidence ended it")
				}
				a.run.Wait()
				if text := a.run.Err.String(); !strings.Contains(text, "adopted(socket), weak, in session "+beside+", not ended with this one") {
					t.Errorf("stderr %q", text)
				}
				i.End(beside)
			}
			if out, err := exec.Command("sh", "-c", tmux+" list-windows").CombinedOutput(); err != nil || strings.Count(string(out), "\n") != 1 {
				t.Errorf("the server and its first window: %v %s", err, out)
			}
		})
	}
}

// The passed-on secret is proof; a server that the session started needs none.
func TestTmuxToken(t *testing.T) {
	i := policed(t, "end: strong")
	tmux := server(t, i)
	a := ask(i, tmux+` new-window -d -e LINEAGE_TOKEN="$LINEAGE_TOKEN" 'sleep 132; :'`)
	b := a.brokered("attributed", "env")
	is(t, b, "tmux", "env", "strong", true)
	i.End("work")
	if alive(b) {
		t.Error("it lives")
	}
	a.run.Wait()

	own := filepath.Join(i.Dir, "own")
	a = ask(i, "tmux -f /dev/null -S "+own+" new-session -d 'exec sleep 133'; tmux -S "+own+" new-window -d 'exec sleep 134'; tmux -S "+own+" list-windows")
	i.Until("windows of the own server", func() bool { return strings.Count(a.run.Out.String(), "\n") == 2 })
	i.Until("members", func() bool { return i.Record("work").Live >= 4 })
	if all := i.Record("work").Brokered; len(all) != 0 {
		t.Errorf("%+v", all)
	}
	i.End("work")
	if _, err := os.Stat(own); err == nil {
		if err := exec.Command("tmux", "-S", own, "list-windows").Run(); err == nil {
			t.Error("the session's own server lives")
		}
	}
}
