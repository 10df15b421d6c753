//go:build linux

package access

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// TestFairShare: a user with many uids takes what is left of the connections, not those of other
// users. Root's are never closed for another.
func TestFairShare(t *testing.T) {
	limits := Limits{Conns: 64, UIDConns: 16, MemberConns: 16}
	root, room, _ := limits.rooms()
	c := newConns(limits, func() time.Duration { return 0 })
	closed := make(map[uint32]int)
	connect := func(uid uint32, member tracer.SessionID) *Connection {
		if !c.enter(uid) {
			return nil
		}
		x := &Connection{peer: Peer{UID: uid, PIDFD: -1}, caller: Caller{Member: member}, close: func() { closed[uid]++ }}
		if !c.join(x) {
			c.leave(x)
			return nil
		}
		return x
	}
	var all []*Connection
	for range 4 {
		all = append(all, connect(0, 0))
	}
	for uid := range uint32(12) {
		for range 16 {
			if x := connect(1000+uid, 0); x != nil {
				all = append(all, x)
			}
		}
	}
	if c.all != room {
		t.Fatalf("%d connections, want %d", c.all, room)
	}
	// Each uid has its share, whichever came last, and another one gets one, too.
	share := (room - 4) / 13
	for range share {
		x := connect(2000, 0)
		if x == nil {
			t.Fatalf("another user has %d connections, want %d", c.open[slot{uid: 2000}], share)
		}
		all = append(all, x)
	}
	for uid := range uint32(12) {
		if n := c.open[slot{uid: 1000 + uid}]; n < share {
			t.Errorf("uid %d has %d connections", 1000+uid, n)
		}
	}
	for range 16 { // it cannot take more than the others have
		connect(2000, 0)
	}
	if n := c.open[slot{uid: 2000}]; n > share+1 || c.all != room {
		t.Errorf("%d of %d connections", n, c.all)
	}
	for range root - room {
		if connect(0, 0) == nil {
			t.Error("root does not get in")
		}
	}
	if connect(0, 0) != nil || closed[0] > 0 {
		t.Errorf("root: %d closed", closed[0])
	}
	for _, list := range c.by {
		for _, x := range append([]*Connection(nil), list...) {
			c.leave(x)
		}
	}
	for _, x := range all {
		if c.leave(x); x != nil && !x.uncounted {
			t.Error("still counted")
		}
	}
	if c.all != 0 || len(c.open) > 0 || len(c.by) > 0 {
		t.Errorf("%d connections, %v, %v", c.all, c.open, c.by)
	}
}
