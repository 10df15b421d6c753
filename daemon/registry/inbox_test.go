//go:build linux

package registry

import (
	"testing"

	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestInboxIsBounded: the reader of the ring waits for the registry, so that a storm
// fills the kernel's buffer and not our memory, and no event is lost.
func TestInboxIsBounded(t *testing.T) {
	b := newInbox(kerneltest.New())
	const events = 32 * maxBatch
	go func() {
		for n := range uint64(events) {
			b.put(&tracer.Event{Count: n})
		}
	}()
	var spare []tracer.Event
	for next := uint64(0); next < events; {
		<-b.ready
		batch := b.take(spare)
		if len(batch) > maxBatch {
			t.Fatalf("%d events wait", len(batch))
		}
		for i := range batch {
			if batch[i].Count != next {
				t.Fatalf("event %d came as number %d", batch[i].Count, next)
			}
			next++
		}
		spare = batch
	}
}

// TestInboxCloses: a writer that waits for room returns when the inbox is closed.
func TestInboxCloses(t *testing.T) {
	b := newInbox(kerneltest.New())
	for range maxBatch {
		b.put(&tracer.Event{})
	}
	full := make(chan bool)
	go func() { full <- b.put(&tracer.Event{}) }()
	b.close()
	if <-full {
		t.Error("a closed inbox takes events")
	}
}
