//go:build linux

package timeout

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// ownAlarm is the exit code of a program whose own time is over, as may happen on a busy machine.
const ownAlarm = 128 + int(unix.SIGALRM)

// An event is how the time of a program comes to its end.
type event struct {
	name     string
	deadline bool // after a short DURATION
	signals  []unix.Signal
}

var events = []event{
	{"deadline", true, nil},
	{"INT", false, []unix.Signal{unix.SIGINT}},
	{"TERM", false, []unix.Signal{unix.SIGTERM}},
	{"stop and continue", true, []unix.Signal{unix.SIGSTOP, unix.SIGCONT}},
}

// TestPrograms: nothing of an escape program is left when lineage timeout returns, and
// the exit code is that of timeout(1), in a session and without a daemon.
func TestPrograms(t *testing.T) {
	t.Run("session", func(t *testing.T) { everyEnd(t, stage.NewDaemon(t), stage.Escapes()) })
	t.Run("subreaper", func(t *testing.T) {
		i := stage.New(t)
		i.Listen().Close() // and nothing can listen there
		require.NoError(t, os.Mkdir(i.Socket, 0o755))
		t.Cleanup(func() { require.NoError(t, os.Remove(i.Socket)) })
		// A subreaper looks for its descendants, so it may not end what forks without a pause.
		everyEnd(t, i, slices.DeleteFunc(stage.Escapes(), func(e stage.Escape) bool {
			return strings.HasPrefix(e.Program, "hop") || strings.HasPrefix(e.Program, "bomb") || e.Program == "bigmem"
		}))
	})
}

func everyEnd(t *testing.T, i *stage.Instance, programs []stage.Escape) {
	t.Helper()
	other := stage.NewBystander(i, "timeout", 0)
	var trials, left, compared, differ atomic.Int32
	t.Run("programs", func(t *testing.T) {
		for _, e := range programs {
			for _, ev := range events {
				t.Run(e.Program+"/"+ev.name, func(t *testing.T) {
					t.Parallel()
					i := i.In(t)
					gnu, _ := trial(t, i, e, ev, true)
					code, alive := trial(t, i, e, ev, false)
					trials.Add(1)
					if alive {
						left.Add(1)
						t.Error("members are alive")
					}
					if gnu == ownAlarm || code == ownAlarm {
						t.Log("not compared: the program's own time was over")
						return
					}
					compared.Add(1)
					if code != gnu {
						differ.Add(1)
						t.Errorf("exit code %d, timeout(1)'s is %d", code, gnu)
					}
				})
			}
		}
	})
	t.Logf("figure: %d programs, %d trials: %d left something; %d of %d exit codes differ from timeout(1)'s", len(programs), trials.Load(), left.Load(), differ.Load(), compared.Load())
	other.MustBeUntouched()
}

// trial runs a program under lineage timeout, or under timeout(1).
func trial(t *testing.T, i *stage.Instance, e stage.Escape, ev event, gnu bool) (code int, alive bool) {
	t.Helper()
	for short := require.Slowed(time.Second); ; short *= 2 {
		m := stage.NewMarker(t, i.Dir)
		limit, killAfter := "600", fmt.Sprint(short.Seconds()/2)
		if ev.deadline {
			limit = fmt.Sprint(short.Seconds())
		}
		args := slices.Concat([]string{"-k", killAfter, limit}, e.Argv())
		// timeout(1) runs below PID 1 of a namespace: what it leaves ends with that.
		argv := []string{"unshare", "--pid", "--fork", "sh", "-c", `timeout "$@"; exit $?`, "sh"}
		if !gnu {
			argv = []string{stage.Lineage, "timeout"}
		}
		cmd := exec.Command(argv[0], slices.Concat(argv[1:], args)...)
		cmd.Env, cmd.Dir = slices.Concat(os.Environ(), m.Env(), []string{"LINEAGE_SOCKET=" + i.Socket}), i.Dir
		p := stage.Start(t, cmd)
		inPlace := func() bool { return len(m.Lines("ready")) > 0 && len(m.Lines("member")) >= e.Members }
		m.Wait("members, or the end", func(bool) bool { return inPlace() || p.Exited() })
		pid := p.Process.Pid
		for _, child := range stage.Children(pid) {
			for _, below := range stage.Children(child) {
				if stage.ProcStatus(below, "Name") == "timeout" {
					pid = below
				}
			}
		}
		if !p.Exited() {
			for _, sig := range ev.signals {
				if err := unix.Kill(pid, sig); !errors.Is(err, unix.ESRCH) { // its time may be over at this moment
					require.NoError(t, err)
				}
				if sig == unix.SIGSTOP {
					i.Until("stop", func() bool { return strings.HasPrefix(stage.ProcStatus(pid, "State"), "T") || p.Exited() })
				}
			}
		}
		p.Wait()
		if alive = m.Drain(); alive {
			t.Log(holders(m))
			m.Kill()
		}
		if inPlace() {
			return shell(p.ProcessState), alive
		}
		if short > stage.Patience {
			t.Fatalf("the program was never in place: %q", m.Text)
		}
	}
}

// holders names what is alive.
func holders(m *stage.Marker) string {
	var text []string
	for _, pid := range m.Holders() {
		out, _ := exec.Command("ps", "-o", "pid,ppid,stat,args", "-p", strconv.Itoa(pid)).Output()
		text = append(text, string(out))
	}
	return strings.Join(text, "\n")
}

// shell is $? after a command.
func shell(s *os.ProcessState) int {
	if ws := s.Sys().(syscall.WaitStatus); ws.Signaled() { //nolint:forcetypeassert // it is, on Linux
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}
