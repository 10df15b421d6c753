//go:build linux

package enforcer

import (
	"sync"
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	now := time.Hour
	b := NewBreaker(3, func() time.Duration { return now })
	allow := func(want bool) {
		t.Helper()
		if got, _ := b.Allow(); got != want {
			t.Fatalf("at %v: %v, want %v", now, got, want)
		}
	}
	state := func(want bool) {
		t.Helper()
		if _, open := b.Open(); open != want {
			t.Fatalf("at %v: open %v, want %v", now, open, want)
		}
	}
	// As many ends as the limit, in any minute.
	for range 3 {
		allow(true)
		now += 20 * time.Second
	}
	allow(true) // the first is a minute ago
	state(false)
	now += 19 * time.Second
	if allowed, tripped := b.Allow(); allowed || !tripped {
		t.Fatal("the fourth within a minute was allowed, or did not trip it")
	}
	since, open := b.Open()
	if !open || since != now {
		t.Fatalf("open %v since %v, want since %v", open, since, now)
	}
	// Time alone does not close it: the cause may still be there.
	now += time.Hour
	if allowed, tripped := b.Allow(); allowed || tripped {
		t.Fatal("it closed by itself, or tripped twice")
	}
	state(true)
	b.SetLimit(100)
	state(true)
	if !b.Resume() {
		t.Fatal("it was not open")
	}
	state(false)
	if b.Resume() {
		t.Fatal("it was open after it was closed")
	}
	// It counts from zero again, with the new limit.
	for range 100 {
		allow(true)
	}
	allow(false)
	b.Resume()
	b.SetLimit(2)
	allow(true)
	allow(true)
	allow(false)
}

// A lowered limit counts the ends that the old limit allowed.
func TestBreakerLowered(t *testing.T) {
	now := time.Duration(0)
	b := NewBreaker(10, func() time.Duration { return now })
	for range 5 {
		b.Allow()
	}
	b.SetLimit(5)
	if allowed, tripped := b.Allow(); allowed || !tripped {
		t.Fatal("five and one more were allowed")
	}
}

// Never more than the limit in any minute, with concurrent callers.
func TestBreakerConcurrent(t *testing.T) {
	b := NewBreaker(50, func() time.Duration { return time.Second })
	var mu sync.Mutex
	allowed, tripped := 0, 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				a, tr := b.Allow()
				mu.Lock()
				if a {
					allowed++
				}
				if tr {
					tripped++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if allowed != 50 || tripped != 1 {
		t.Fatalf("%d allowed, tripped %d times; want 50 and once", allowed, tripped)
	}
}
