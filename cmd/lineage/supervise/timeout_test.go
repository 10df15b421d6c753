//go:build linux

package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

const tenth = time.Second / 10

// limited is a script of timeout. Without a daemon the command runs without a session.
func limited(l Limit, daemon bool) script {
	if l.Signal == 0 {
		l.Signal = unix.SIGTERM
	}
	return script{Limit: &l, NoDaemon: !daemon}
}

func asEither(t *testing.T, f func(t *testing.T, daemon bool)) {
	t.Run("session", func(t *testing.T) { f(t, true) })
	t.Run("subreaper", func(t *testing.T) { f(t, false) })
}

// What timeout(1) exits with, and whether a signal killed it; $? is 128 + signal in each case.
func TestTimeoutCode(t *testing.T) {
	const deaf = `trap "" TERM INT; echo ready; while :; do sleep .05; done`
	const polite = `trap "exit 5" TERM; echo ready; while :; do sleep .05; done`
	for _, c := range []struct {
		name   string
		limit  Limit
		sh     string
		code   int
		signal syscall.Signal
	}{
		{"in time", Limit{After: time.Minute}, "exit 7", 7, 0},
		{"no limit", Limit{}, "exit 7", 7, 0},
		{"deadline", Limit{After: tenth}, "sleep 60", 124, 0},
		{"own code", Limit{}, polite, 124, 0},
		{"own code, preserved", Limit{Preserve: true}, polite, 5, 0},
		{"preserved", Limit{After: tenth, Preserve: true}, "exec sleep 60", 143, 0},
		{"killed", Limit{KillAfter: tenth}, deaf, 137, 0},
		{"killed alone", Limit{KillAfter: tenth, Foreground: true}, deaf, 137, 0},
		{"KILL", Limit{Signal: unix.SIGKILL}, deaf, 137, 0},
		{"own signal", Limit{After: time.Minute}, "kill -TERM $$", -1, unix.SIGTERM},
		{"own KILL", Limit{After: time.Minute}, "kill -KILL $$", -1, unix.SIGKILL},
		{"stopped", Limit{After: tenth}, "kill -STOP $$", 124, 0},
		{"stopped as by a terminal", Limit{After: tenth}, "kill -TSTP $$", 124, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			asEither(t, func(t *testing.T, daemon bool) {
				cmd := runCmd(t, limited(c.limit, daemon), "sh", "-c", c.sh)
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				p, printed := start(t, cmd), ""
				if strings.Contains(c.sh, "ready") { // the deadline is when the shell has set its traps
					printed = "ready\n"
					p.stdout.expect(t, "ready")
					p.signal(unix.SIGALRM)
				}
				got := p.wait()
				var signal syscall.Signal
				if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
					signal = ws.Signal()
				}
				if got.code != c.code || signal != c.signal || got.stdout != printed {
					t.Errorf("got %+v, signal %v", got, signal)
				}
			})
		})
	}
}

// Errors are ours, and nothing runs.
func TestTimeoutCannot(t *testing.T) {
	asEither(t, func(t *testing.T, daemon bool) {
		for name, code := range map[string]int{".": 126, "lngtest-no-such": 127} {
			got := run(t, limited(Limit{After: time.Minute}, daemon), name)
			if got.code != code || !strings.HasPrefix(got.stderr, "lineage: timeout: "+name+": ") || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
}

// A signal goes to the command and its group, and continues them; with Foreground to the command
// alone. Those that were ignored are caught, as by timeout(1).
func TestTimeoutSignals(t *testing.T) {
	for _, alone := range []bool{false, true} {
		cmd := runCmd(t, limited(Limit{Foreground: alone, Verbose: true}, true))
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `trap "" INT HUP; exec ` + self(t) + " " + self(t) + " __lngtest family"}
		p, in := piped(t, cmd)
		p.member("child")
		p.member("root")
		for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGHUP, unix.SIGTERM, unix.SIGQUIT} {
			p.signal(sig)
			p.stdout.expect(t, "root got "+unix.SignalName(sig))
			p.stderr.expect(t, "timeout: sending signal "+strings.TrimPrefix(unix.SignalName(sig), "SIG")+" to command '")
		}
		p.signal(unix.SIGUSR1) // to the command, whatever the flags
		p.stdout.expect(t, "root got SIGUSR1")
		for _, late := range []string{"child got SIGQUIT", "root got SIGCONT"} { // nobody has waited for these
			require.Eventually(t, late, func() bool { return alone || strings.Contains(p.stdout.String(), late) })
		}
		in.Close()
		if got := p.wait(); got.code != 0 || strings.Contains(got.stdout, "child got") == alone || strings.Contains(got.stdout, "root got SIGCONT") == alone ||
			strings.Contains(got.stdout, "child got SIGUSR1") {
			t.Errorf("foreground %v: %+v", alone, got)
		}
	}
}

// SIGALRM is the deadline. The time of -k begins with the first signal that ends the command, and
// SIGKILL ends the whole session.
func TestTimeoutAlarm(t *testing.T) {
	for sig, said := range map[unix.Signal]string{unix.SIGALRM: "TERM", unix.SIGINT: "INT"} {
		s := limited(Limit{After: time.Hour, KillAfter: tenth, Verbose: true}, true)
		s.Log, s.UntilEnd = filepath.Join(t.TempDir(), "log"), true
		s.Verdict = &api.Report{Session: "k3x9q2", State: "ended", EndReason: "max_lifetime", Verdict: api.VerdictClean} // as ever: nothing is said
		p, _ := piped(t, runCmd(t, s, self(t), "__lngtest", "watch", "root"))
		p.member("root")
		p.signal(sig)
		got := p.wait()
		if got.code != 137 || !strings.HasPrefix(got.stderr, "timeout: sending signal "+said+" to command '") ||
			!strings.Contains(got.stderr, "timeout: sending signal KILL to command '") || strings.Count(got.stderr, "\n") != 2 {
			t.Errorf("%v: %+v", sig, got)
		}
		if log, err := os.ReadFile(s.Log); err != nil || !strings.Contains(string(log), `"grace_ms":100,`) || !strings.Contains(string(log), `"timeout_ms":3600000}`) ||
			!strings.Contains(string(log), "end k3x9q2 now=true") {
			t.Errorf("%v: %v\n%s", sig, err, log)
		}
	}
}

// Without a session what descends from the command ends all the same, and -v says what is not known.
func TestTimeoutFallsBack(t *testing.T) {
	refused := limited(Limit{After: time.Minute, Verbose: true}, true)
	refused.Refusal = api.NewError(api.CodeDenied, "create: denied", "")
	for why, s := range map[string]script{"no daemon answers": limited(Limit{After: time.Minute, Verbose: true}, false), "denied": refused} {
		// finish returns when no process has our pipes.
		got := finish(t, runCmd(t, s, "sh", "-c", "setsid sh -c 'trap \"\" PIPE; sleep 60' & exit 3"))
		if got.code != 3 || !strings.Contains(got.stderr, why) || !strings.Contains(got.stderr, unknownToSubreaper) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%s: %+v", why, got)
		}
	}
}

// A signal before the command runs ends timeout, and no fallback follows.
func TestTimeoutSignalledEarly(t *testing.T) {
	s := limited(Limit{After: time.Minute}, true)
	s.Log, s.NoAnswer = filepath.Join(t.TempDir(), "log"), true
	p := start(t, runCmd(t, s, "sh", "-c", "echo ran"))
	require.Eventually(t, "connect", func() bool { _, err := os.Stat(s.Log); return err == nil })
	p.signal(unix.SIGTERM)
	if got := p.wait(); got.code != 143 || got.stdout != "" {
		t.Errorf("got %+v", got)
	}
}
