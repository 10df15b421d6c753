//go:build linux

package registry

import (
	"context"
	"sync"
)

// A flush lets any number of goroutines wait until the events that the kernel
// had told before they came are in the inbox. One flush is under way at a time;
// who comes while it is waits for the next, as the reader may have passed its
// events already.
type flush struct {
	begin func() error // of the kernel, which answers through over

	mu        sync.Mutex
	now, next chan struct{} // closed when it is over; nil: nobody waits
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
		f.over() // it is closed: no event comes any more
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// over says that the flush under way is, and begins the next if it is waited for.
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
