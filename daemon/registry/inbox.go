//go:build linux

package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/redact"
	"github.com/lineage-ebpf/lineage/tracer"
)

// maxBatch bounds what waits for the registry. Beyond it reading stops: the kernel's
// ring buffer takes the rest, and counts what it cannot take.
const maxBatch = 16384

// inbox is the events that were read and not yet applied. It has one writer, ingest,
// and one reader, the registry.
type inbox struct {
	kernel Kernel
	flush  *flush
	ready  chan struct{} // has an item when take returns events

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

// ingest reads events until the kernel is closed for reading. The texts of an exec event
// alias the tracer's buffer and are copied here.
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
			ev.Traceparent = slices.Clone(ev.Traceparent)
			text := append(append(make([]byte, 0, len(ev.Filename)+len(ev.Argv)), ev.Filename...), ev.Argv...)
			ev.Filename, ev.Argv = text[:len(ev.Filename):len(ev.Filename)], text[len(ev.Filename):]
			redact.Token(ev.Argv)
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
		system.Offer(b.ready, struct{}{})
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

// close ends ingest even if it waits for the reader.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.room.Broadcast()
}

// A flush lets any number of goroutines wait until the events that the kernel had sent
// before are in the inbox. One flush is under way at a time; a goroutine that comes
// meanwhile waits for the next, as the reader may have passed its events already.
type flush struct {
	begin func() error // asks the kernel, whose answer calls over

	mu        sync.Mutex
	now, next chan struct{} // closed when it is over; nil: no goroutine waits
}

// wait returns when the events are in, and at the latest when ctx is over.
func (f *flush) wait(ctx context.Context) {
	f.mu.Lock()
	idle := f.now == nil
	mine := &f.next
	if idle {
		mine = &f.now
	}
	if *mine == nil {
		*mine = make(chan struct{})
	}
	done := *mine
	f.mu.Unlock()
	if idle && f.begin() != nil {
		f.over() // the kernel is closed: no more events come
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// over ends the flush under way, and begins the next if a goroutine waits for it.
func (f *flush) over() {
	f.mu.Lock()
	if f.now != nil {
		close(f.now)
	}
	f.now, f.next = f.next, nil
	again := f.now != nil
	f.mu.Unlock()
	if again && f.begin() != nil {
		f.over()
	}
}
