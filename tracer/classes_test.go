//go:build linux

package tracer_test

import (
	"maps"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// The counts by which the hooks recognise outsiders equal the entries: a count that is
// too small hides a member, one that is too large never goes down.
func TestClasses(t *testing.T) { onEachSide(t, testClasses) }

func testClasses(t *testing.T, tr *tracer.Tracer) {
	w, id := programIn(t, tr, "zombies", "9")
	w.goOn()
	w.until("ready")
	agree := func(what string, fewest int) {
		t.Helper()
		until(t, what, func() bool {
			entries, counted, err := tr.Classes()
			require.NoError(t, err)
			n := 0
			for _, have := range entries {
				n += have
			}
			return n >= fewest && maps.Equal(entries, counted)
		})
	}
	agree("the root and its zombies", 10)
	require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	w.wait()
	settled(t, tr, id)
	agree("nobody", 0)
}
