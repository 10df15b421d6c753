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
		if got, _ := b.Allow(1000); got != want {
			t.Fatalf("at %v: %v, want %v", now, got, want)
		}
	}
	state := func(want bool) {
		t.Helper()
		if open := b.Open(1000); open != want {
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
	if allowed, tripped := b.Allow(1000); allowed || !tripped {
		t.Fatal("the fourth within a minute was allowed, or did not trip it")
	}
	if all := b.Opened(); len(all) != 1 || all[0] != 1000 {
		t.Fatalf("open %v, want since %v", all, now)
	}
	// Time alone does not close it: the cause may still be there.
	now += time.Hour
	if allowed, tripped := b.Allow(1000); allowed || tripped {
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

// TestBreakerOfUsers: it opens for the user whose sessions are ended, and for no other one.
func TestBreakerOfUsers(t *testing.T) {
	now := time.Hour
	b := NewBreaker(3, func() time.Duration { return now })
	for range 10 {
		b.Allow(1000)
	}
	for _, uid := range []uint32{0, 1001} {
		for range 3 {
			if allowed, tripped := b.Allow(uid); !allowed || tripped || b.Open(uid) {
				t.Fatalf("uid %d pays for another one", uid)
			}
		}
	}
	if _, tripped := b.Allow(1001); !tripped || !b.Open(1001) || b.Open(0) || len(b.Opened()) != 2 {
		t.Fatalf("open for %v", b.Opened())
	}
	if !b.Resume() || len(b.Opened()) != 0 {
		t.Fatalf("open for %v after it was closed", b.Opened())
	}
	for uid := range uint32(100) {
		b.Allow(uid)
	}
	now += breakerWindow
	if b.Allow(1); len(b.ends) != 1 {
		t.Fatalf("%d users are remembered, of whom nothing was ended lately", len(b.ends))
	}
}

// A lowered limit counts the ends that the old limit allowed.
func TestBreakerLowered(t *testing.T) {
	now := time.Duration(0)
	b := NewBreaker(10, func() time.Duration { return now })
	for range 5 {
		b.Allow(1000)
	}
	b.SetLimit(5)
	if allowed, tripped := b.Allow(1000); allowed || !tripped {
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
				a, tr := b.Allow(1000)
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
