//go:build linux

package enforcer

import (
	"sync"
	"time"
)

// Breaker is the circuit breaker for the ends that the daemon starts automatically:
// rules, budgets, idle sessions. A rule that matches too much, or a budget that is too
// small, then ends a few sessions instead of all sessions of the host. Ends requested
// by name, by a person or a program, and ends that the kernel starts when a root or an
// owner dies, are neither counted nor stopped.
//
// Once open it stays open until Resume: its cause does not disappear by waiting. It may
// be used from any goroutine.
type Breaker struct {
	clock func() time.Duration

	mu    sync.Mutex
	limit int
	ends  []time.Duration // of the last minute, oldest first
	open  bool
	since time.Duration
}

// breakerWindow is the time in which ends are counted.
const breakerWindow = time.Minute

// NewBreaker makes a closed Breaker that allows limit ends in any minute of
// clock.
func NewBreaker(limit int, clock func() time.Duration) *Breaker {
	return &Breaker{limit: limit, clock: clock}
}

// Allow asks for one end and counts it. If it is not allowed, the end must only be
// recorded; tripped reports whether this call opened the breaker.
func (b *Breaker) Allow() (allowed, tripped bool) {
	now := b.clock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open {
		return false, false
	}
	for len(b.ends) > 0 && now-b.ends[0] >= breakerWindow {
		b.ends = b.ends[1:]
	}
	if len(b.ends) >= b.limit {
		b.open, b.since, b.ends = true, now, nil
		return false, true
	}
	b.ends = append(b.ends, now)
	return true, false
}

// Open reports whether the breaker is open, and since when by its clock.
func (b *Breaker) Open() (since time.Duration, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.since, b.open
}

// Resume closes the breaker and starts counting from zero; it reports whether it was
// open.
func (b *Breaker) Resume() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.open
	b.open, b.since, b.ends = false, 0, nil
	return was
}

// SetLimit sets another limit. It does not close the breaker.
func (b *Breaker) SetLimit(limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = limit
}
