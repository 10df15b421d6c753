//go:build linux

package tracer_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// After a take-over every slot without a session is queued once, in order.
func TestFreeSlots(t *testing.T) {
	const sessions = 16384 // MAX_SESSIONS
	everySide(t, func(t *testing.T, o tracer.Options) {
		o.Dir = tracertest.Dir(t)
		first := tracertest.New(t, o)
		w := start(t, "wait")
		if id := create(t, first, w, tracer.SessionSpec{}); uint32(id) != 0 {
			t.Fatalf("the first session is %v, not in the first slot", id)
		}
		second := tracertest.New(t, other(o))
		free, err := second.TakeFreeSlots()
		if err != nil {
			t.Fatal(err)
		}
		for i, slot := range free {
			if slot != uint32(i)+1 {
				t.Fatalf("free slot %d is %d", i, slot)
			}
		}
		if len(free) != sessions-1 {
			t.Errorf("%d slots are free, want %d", len(free), sessions-1)
		}
	})
}
