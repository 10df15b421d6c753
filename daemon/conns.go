//go:build linux

package daemon

import (
	"maps"
	"net"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// conns are the open connections, counted so that no caller can take them all.
type conns struct {
	limits limits
	clock  func() time.Duration

	mu      sync.Mutex
	all     map[net.Conn]*connection
	uids    map[uint32]int
	members map[tracer.SessionID]int
	rates   map[tracer.SessionID]*bucket
	left    time.Duration // when the last one was closed
}

// slot is what a connection counts against.
type slot struct {
	uid    uint32
	member tracer.SessionID
}

// bucket holds up to a second's worth of requests.
type bucket struct {
	tokens float64
	at     time.Duration
}

func newConns(l limits, clock func() time.Duration) *conns {
	return &conns{
		limits: l, clock: clock, all: make(map[net.Conn]*connection), uids: make(map[uint32]int),
		members: make(map[tracer.SessionID]int), rates: make(map[tracer.SessionID]*bucket), left: clock(),
	}
}

func (t *conns) open(nc net.Conn, c *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.slot = &slot{c.peer.uid, c.member}
	t.all[nc] = c
	t.uids[c.slot.uid]++
	t.members[c.slot.member]++
	c.over = len(t.all) > t.limits.conns ||
		c.slot.uid != 0 && t.uids[c.slot.uid] > t.limits.uidConns ||
		c.slot.member != 0 && t.members[c.slot.member] > t.limits.memberConns
}

func (t *conns) close(nc net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.all[nc]
	if c == nil {
		return
	}
	delete(t.all, nc)
	t.left = t.clock()
	if t.uids[c.slot.uid]--; t.uids[c.slot.uid] == 0 {
		delete(t.uids, c.slot.uid)
	}
	if t.members[c.slot.member]--; t.members[c.slot.member] == 0 {
		delete(t.members, c.slot.member)
	}
	c.close()
}

// allow takes one request of a session's members.
func (t *conns) allow(member tracer.SessionID, now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	rate := float64(t.limits.memberRate)
	b := t.rates[member]
	if b == nil {
		// After a second a bucket is full again, and worth forgetting.
		maps.DeleteFunc(t.rates, func(_ tracer.SessionID, b *bucket) bool { return now-b.at > time.Second })
		b = &bucket{rate, now}
		t.rates[member] = b
	}
	b.tokens = min(rate, b.tokens+(now-b.at).Seconds()*rate)
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// idle tells for how long nobody has been connected.
func (t *conns) idle() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) > 0 {
		return 0
	}
	return t.clock() - t.left
}
