//go:build linux

package tracer_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// TestOutsiderDies: who killed a process in no session is told if that was asked for, and then only of a signal that it
// dies of.
func TestOutsiderDies(t *testing.T) {
	for _, on := range []bool{true, false} {
		for _, baseline := range []bool{false, true} {
			tr := tracertest.New(t, tracer.Options{Dir: tracertest.Dir(t), Deaths: on, Baseline: baseline})
			events := collect(t, tr)
			o := start(t, "trap 'echo one' USR1; echo ready; while :; do read x; done")
			o.goOn()
			o.until("ready")
			require.NoError(t, unix.Kill(int(o.pid()), unix.SIGUSR1))
			o.tell("") // a trap runs when the read is over
			o.until("one")
			require.NoError(t, unix.Kill(int(o.pid()), unix.SIGSTOP))
			require.NoError(t, unix.Kill(int(o.pid()), unix.SIGKILL))
			// A member's death comes after it.
			v := newVictim(t, tr, events, "exit 0")
			var all []tracer.Event
			for ev := range events {
				if ev.Type == tracer.EventDeath && ev.Process.PID == o.pid() {
					all = append(all, ev)
				}
				if ev.Type == tracer.EventExit && ev.Process.PID == v.pid() {
					break
				}
			}
			if !on {
				require.Equal(t, len(all), 0)
				continue
			}
			if len(all) != 1 || !fromUs(all[0].Signal, unix.SIGKILL) || all[0].Session != 0 || tracer.Comm(all[0].Comm).String() == "" {
				t.Errorf("baseline %v: %+v", baseline, all)
			}
		}
	}
}
