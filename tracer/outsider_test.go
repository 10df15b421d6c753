//go:build linux

package tracer_test

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// TestOutsiderDies: who killed a process in no session is known if that was asked for, and then only of the first signal
// that it dies of. What dies of one user leaves the deaths of others.
func TestOutsiderDies(t *testing.T) {
	for _, on := range []bool{true, false} {
		for _, baseline := range []bool{false, true} {
			tr := tracertest.New(t, tracer.Options{Dir: tracertest.Dir(t), Deaths: on, Baseline: baseline})
			o := start(t, "trap 'echo one' USR1; echo ready; while :; do read x; done")
			o.goOn()
			o.until("ready")
			died := func() (of []tracer.Event, by map[uint32]int) {
				by = make(map[uint32]int)
				require.NoError(t, tr.Deaths(func(ev *tracer.Event) {
					by[ev.UID]++
					if ev.Process.PID == o.pid() {
						of = append(of, *ev)
					}
				}))
				return of, by
			}
			require.NoError(t, unix.Kill(int(o.pid()), unix.SIGUSR1))
			o.tell("") // a trap runs when the read is over
			o.until("one")
			require.NoError(t, unix.Kill(int(o.pid()), unix.SIGSTOP))
			of, _ := died()
			require.Equal(t, len(of), 0)
			require.NoError(t, unix.Kill(int(o.pid()), unix.SIGKILL), unix.Kill(int(o.pid()), unix.SIGKILL))
			for uid, script := range map[uint32]string{64321: "kill -9 $$", // of this test only
				64320: "n=0; while [ $n -lt 300 ]; do sh -c 'kill -9 $$'; n=$((n+1)); done"} {
				cmd := exec.Command("sh", "-c", script)
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid}}
				_ = cmd.Run() // it was killed, or its last child
			}
			of, by := died()
			if !on {
				require.Equal(t, len(of)+len(by), 0)
			} else if len(of) != 1 || !fromUs(of[0].Signal, unix.SIGKILL) ||
				of[0].Comm.String() == "" || by[64321] != 1 || by[64320] < 100 || by[64320] > 256 {
				t.Errorf("baseline %v: %+v %v", baseline, of, by)
			}
		}
	}
}
