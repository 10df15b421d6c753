//go:build linux

package registry

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/lineage-ebpf/lineage/daemon/broker"
	"github.com/lineage-ebpf/lineage/tracer"
)

// maxBatch bounds what waits for the registry. Beyond it reading stops: the kernel's
// ring buffer takes the rest, and counts what it cannot take.
const maxBatch = 16384

// inbox is the events that were read and not yet applied. It has one writer,
// ingest, and one reader, the registry.
type inbox struct {
	kernel Kernel
	flush  *flush
	ready  chan struct{} // something is pending

	mu      sync.Mutex
	room    *sync.Cond
	pending []tracer.Event
	closed  bool
}

func newInbox(k Kernel) *inbox {
	b := &inbox{kernel: k, flush: &flush{begin: k.Flush}, ready: make(chan struct{}, 1)}
	b.room = sync.NewCond(&b.mu)
	return b
}

// ingest reads events until the kernel is closed. The texts of an exec event alias the
// tracer's buffer and are copied here.
func (b *inbox) ingest() error {
	var ev tracer.Event
	for {
		err := b.kernel.Read(&ev)
		switch {
		case errors.Is(err, tracer.ErrFlushed):
			b.flush.over()
			continue
		case errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("read events: %w", err)
		}
		if len(ev.Filename)+len(ev.Argv) > 0 {
			text := append(append(make([]byte, 0, len(ev.Filename)+len(ev.Argv)), ev.Filename...), ev.Argv...)
			ev.Filename, ev.Argv = text[:len(ev.Filename):len(ev.Filename)], text[len(ev.Filename):]
			broker.Hush(ev.Argv)
		}
		if !b.put(&ev) {
			return nil
		}
	}
}

func (b *inbox) put(ev *tracer.Event) bool {
	b.mu.Lock()
	for len(b.pending) >= maxBatch && !b.closed {
		b.room.Wait()
	}
	first := len(b.pending) == 0
	b.pending = append(b.pending, *ev)
	closed := b.closed
	b.mu.Unlock()
	if first {
		select {
		case b.ready <- struct{}{}:
		default:
		}
	}
	return !closed
}

// take returns what is pending and keeps spare, emptied, for the next events.
func (b *inbox) take(spare []tracer.Event) []tracer.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := b.pending
	b.pending = spare[:0]
	b.room.Signal()
	return batch
}

// close lets a waiting writer go.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.room.Broadcast()
}
