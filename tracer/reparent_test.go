//go:build linux

package tracer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// needsTrampolines skips if the kernel refuses fentry programs.
func needsTrampolines(t *testing.T, tr *tracer.Tracer) {
	t.Helper()
	for _, why := range tr.Features().Limits {
		if strings.HasPrefix(why, "fentry/") {
			tracertest.Lacks(t, !forbidden(why), why)
		}
	}
}

// Whichever process gets an orphan, whatever died before: each move is one event with
// the parent that died and the new one, and the creator of the orphan does not change.
func TestReparent(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{})
	events := collect(t, tr)
	for _, kind := range []string{"inside", "outside", "dying", "thread", "sibling"} {
		t.Run(kind, func(t *testing.T) {
			w := program(t, "reparent", kind)
			w.goOn()
			var root, orphan uint32
			fmt.Sscanf(w.line(), "root %d", &root)
			id, err := tr.Create(tracer.SessionSpec{Root: tracer.Identity{PID: root}})
			require.NoError(t, err)
			w.goOn()
			var want []string
			creator := root
			for l := w.line(); l != "ready"; l = w.line() {
				var from, to uint32
				if n, err := fmt.Sscanf(l, "moved %d %d %d", &orphan, &from, &to); n != 3 {
					t.Fatalf("%q: %v", l, err)
				}
				if len(want) == 0 {
					creator = from
				}
				want = append(want, fmt.Sprintf("%d from %d to %d", orphan, from, to))
			}
			for _, p := range members(t, tr, id) {
				if p.PID == orphan && (p.Creator.PID != creator || p.Session != id || p.Evidence != tracer.EvidenceFork) {
					t.Errorf("the orphan of %d is %+v", creator, p)
				}
			}
			require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
			sentenced(t, tr, id)
			w.in.Close()
			w.gone()
			w.wait()
			settled(t, tr, id)
			var got []string
			for ev := range events {
				if ev.Session != id {
					continue
				}
				if ev.Type == tracer.EventReparent {
					got = append(got, fmt.Sprintf("%d from %d to %d", ev.Process.PID, ev.From.PID, ev.Parent.PID))
				}
				if ev.Type == tracer.EventSession && ev.State != tracer.StateActive {
					break // processes that die from here on also leave children to others
				}
			}
			needsTrampolines(t, tr)
			if !slices.Equal(got, want) {
				t.Errorf("events %q, want %q", got, want)
			}
		})
	}
}

// The kernel reports one death up to three times: of a ptraced thread, to the tracer
// and then to the parent, and of a zombie to each new parent. It counts as one death.
func TestDeathToldTwice(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{})
	events := collect(t, tr)
	w, id := programIn(t, tr, "ptracedthreads")
	w.goOn()
	w.until("ready")
	until(t, "only the root is left", func() bool {
		s, err := tr.Settle(id)
		require.NoError(t, err)
		return s.Live == 1 && s.Dying == 0 && s.Unreaped == 0
	})
	s, err := tr.Session(id)
	if err != nil || s.Forks != 4 || s.Live != 1 || s.Dying != 0 || s.Unreaped != 0 {
		t.Errorf("session %+v, %v", s, err)
	}
	endAll(t, tr, id, w)
	exits := map[tracer.Identity]int{}
	for ev := range events {
		if ev.Session == id && ev.Type == tracer.EventExit {
			exits[ev.Process]++
		}
		if ev.Session == id && ev.Type == tracer.EventSession && ev.State == tracer.StateEmpty {
			break
		}
	}
	for p, n := range exits {
		if n != 1 {
			t.Errorf("%d exits of %v", n, p)
		}
	}
	require.Equal(t, len(exits), 5)
	none(t, tr, "live_drift", "delete_failed")
	needsTrampolines(t, tr)
}
