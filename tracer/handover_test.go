//go:build linux

package tracer_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// On a host with more processes than a pass inside a hook may visit, the exit of a root
// leaves the rest: to a verb's pass or, if no daemon asks for one, to an event of the
// host a little later. No member survives in either case.
func TestHandover(t *testing.T) {
	for _, c := range []struct {
		name   string
		daemon bool
	}{{"to the daemon", true}, {"without a daemon", false}} {
		t.Run(c.name, func(t *testing.T) {
			defer tracer.HookVisits(3)() // every host has more
			tr := tracertest.New(t, tracer.Options{})
			if tr.Features().Level < 4 {
				t.Skipf("level %d: %v", tr.Features().Level, tr.Features().Missing)
			}
			events := collect(t, tr)
			w, id := startIn(t, tr, `for i in 0 1 2 3 4 5 6 7 8 9; do sleep 60 & done; echo; read go; exit 0`)
			w.goOn()
			w.line()
			w.goOn()
			w.wait()
			if c.daemon {
				sentence(t, tr)
			}
			until(t, "nobody lives", func() bool {
				require.NoError(t, exec.Command("/bin/true").Run())
				s, err := tr.Session(id)
				return err == nil && s.Live == 0
			})
			settled(t, tr, id)
			var root, first uint64
			for ev := range events {
				if ev.Session != id {
					continue
				}
				if ev.Type == tracer.EventSession && ev.State == tracer.StateEmpty {
					break
				}
				switch {
				case ev.Type != tracer.EventExit:
				case ev.Flags&tracer.FlagRoot != 0:
					root = ev.Time
				case first == 0:
					first = ev.Time
				}
			}
			// Kernel timestamps, so that a slow machine does not make it fail.
			if after := time.Duration(first - root); !c.daemon && after < 100*time.Millisecond {
				t.Errorf("the root's exit did not leave the rest: the first member died %v after it", after)
			}
		})
	}
}
