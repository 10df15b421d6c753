//go:build linux

package enforcer

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Breaker is the circuit breaker for ends that nobody asked for: those by rules, budgets and idle
// time, whether the daemon or the kernel begins them. A rule that matches too much, or a budget that
// is too small, then ends a few sessions of a user instead of all of them. Each user is counted
// alone: nobody can open it for another one, and least of all for root. Ends requested by name, by
// a person or a program, and those by an owner's death, are neither counted nor stopped.
//
// Once open for a user it stays open until Resume: its cause does not disappear by waiting. It may
// be used from any goroutine.
type Breaker struct {
	clock func() time.Duration

	mu    sync.Mutex
	limit int
	ends  map[uint32][]time.Duration // of the last minute, oldest first, by uid
	open  map[uint32]bool            // by uid
	swept time.Duration              // when old ends of all users were dropped
}

const breakerWindow = time.Minute

// NewBreaker makes a closed Breaker that allows limit ends of each user in any minute of
// clock.
func NewBreaker(limit int, clock func() time.Duration) *Breaker {
	return &Breaker{limit: limit, clock: clock, ends: make(map[uint32][]time.Duration),
		open: make(map[uint32]bool)}
}

// Allow asks for the end of one session of a user, and counts it. If it is not allowed, the end
// must only be recorded; tripped reports whether this call opened the breaker for the user.
func (b *Breaker) Allow(uid uint32) (allowed, tripped bool) {
	now := b.clock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[uid] {
		return false, false
	}
	if now-b.swept >= breakerWindow {
		b.swept = now
		maps.DeleteFunc(b.ends, func(_ uint32, ends []time.Duration) bool { return now-ends[len(ends)-1] >= breakerWindow })
	}
	ends := b.ends[uid]
	for len(ends) > 0 && now-ends[0] >= breakerWindow {
		ends = ends[1:]
	}
	if len(ends) >= b.limit {
		b.open[uid] = true
		delete(b.ends, uid)
		return false, true
	}
	b.ends[uid] = append(ends, now)
	return true, false
}

func (b *Breaker) Open(uid uint32) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[uid]
}

func (b *Breaker) Opened() []uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.open))
}

// Resume closes the breaker for all users and starts counting from zero; it reports whether it was
// open for one.
func (b *Breaker) Resume() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := len(b.open) > 0
	clear(b.open)
	clear(b.ends)
	return was
}

// SetLimit sets another limit. It does not close the breaker.
func (b *Breaker) SetLimit(limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = limit
}
