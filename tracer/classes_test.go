//go:build linux

package tracer_test

import (
	"maps"
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// The counts by which the hooks tell strangers are those of the entries: one
// that is too small hides a member, one that is too large never goes.
func TestClasses(t *testing.T) { everySide(t, testClasses) }

func testClasses(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	// Some live, some are gone, and the last is a zombie until the shell ends.
	w := start(t, `for i in 0 1 2 3 4 5 6 7 8 9; do sleep 60 & (:); done; (:) & echo; exec sleep 60`)
	id := create(t, tr, w, tracer.SessionSpec{})
	w.goOn()
	w.line()
	agree := func(what string, fewest int) {
		t.Helper()
		until(t, what, func() bool {
			entries, counted, err := tr.Classes()
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, have := range entries {
				n += have
			}
			return n >= fewest && maps.Equal(entries, counted)
		})
	}
	agree("the living and a zombie", 12)
	if err := tr.End(id, tracer.CauseEnd, 0); err != nil {
		t.Fatal(err)
	}
	w.cmd.Wait()
	settled(t, tr, id)
	agree("nobody", 0)
}
