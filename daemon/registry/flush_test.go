//go:build linux

package registry

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// A goroutine that waits sees the events that were sent before it began to wait.
func TestFlushWait(t *testing.T) {
	var sent, read atomic.Int64
	begun := make(chan struct{}, 1)
	f := &flush{begin: func() error {
		select {
		case begun <- struct{}{}:
		default:
			t.Error("two at once")
		}
		return nil
	}}
	go func() {
		for range begun {
			read.Store(sent.Load())
			f.over()
		}
	}()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 200 {
				mine := sent.Add(1)
				f.wait(t.Context())
				if got := read.Load(); got < mine {
					t.Errorf("read up to %d, want %d", got, mine)
				}
			}
		})
	}
	wg.Wait()
	close(begun)
}

// wait does not wait for a kernel that is closed, nor longer than its context.
func TestFlushWaitsForNobody(t *testing.T) {
	f := &flush{begin: func() error { return errors.New("closed") }}
	f.wait(t.Context())
	f = &flush{begin: func() error { return nil }}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	f.wait(over)
	f.wait(over) // after the one that is under way
	f.over()
	f.over()
	f.over() // with no waiter
}
