//go:build linux

package registry

import (
	"context"
	"sync"
)

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
