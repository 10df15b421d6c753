//go:build linux

package daemon

import (
	"maps"
	"net"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/time/rate"

	"github.com/lineage-ebpf/lineage/daemon/access"
)

// conns counts the open connections and the requests, so that no caller can
// take them all. A connection over a limit is closed at once and not counted.
type conns struct {
	limits limits
	clock  func() time.Duration

	mu    sync.Mutex
	all   int
	open  map[slot]int
	rates map[slot]*bucket
	left  time.Duration // when the last one was closed

	leaving chan struct{} // has one for each that was refused and is open still
}

// How many refused connections stay open for how long, so that those who are not
// too many hear why.
const (
	maxLeaving   = 64
	refusedStays = 200 * time.Millisecond
)

// slot is what connections are counted for: a uid, the members of sessions that
// have a uid, or the members of one session.
type slot struct {
	uid    uint32
	inside bool
	member tracer.SessionID
}

// bucket is how much a caller may still ask for.
type bucket struct {
	*rate.Limiter
	at time.Duration // of the last request
}

func newConns(l limits, clock func() time.Duration) *conns {
	return &conns{
		limits: l, clock: clock, open: make(map[slot]int), rates: make(map[slot]*bucket), left: clock(),
		leaving: make(chan struct{}, maxLeaving),
	}
}

// enter counts a connection of a uid, if there is room. It comes before
// anything costly is asked about the peer.
func (t *conns) enter(uid uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	root, room, _ := t.limits.rooms()
	if uid == 0 {
		room = root
	}
	of := slot{uid: uid}
	if t.all >= room || uid != 0 && t.open[of] >= 2*t.limits.uidConns {
		return false
	}
	t.all++
	t.open[of]++
	return true
}

// join counts an entered connection for the session that its peer is in. Members
// and the other callers of a uid have their shares apart, so that a user can end
// what keeps asking.
func (t *conns) join(c *connection) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	uid := c.peer.uid
	inside := slot{uid: uid, inside: true}
	if c.member == 0 {
		return uid == 0 || t.open[slot{uid: uid}]-t.open[inside] <= t.limits.uidConns
	}
	session := slot{inside: true, member: c.member}
	_, _, room := t.limits.rooms()
	if t.all > room || uid != 0 && t.open[inside] >= t.limits.uidConns || t.open[session] >= t.limits.memberConns {
		return false
	}
	c.joined = []slot{inside, session}
	for _, of := range c.joined {
		t.open[of]++
	}
	return true
}

// leave takes a connection out of the count, and closes what pins its peer.
func (t *conns) leave(c *connection) {
	if c.over {
		<-t.leaving
		return
	}
	c.peer.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	t.left = t.clock()
	for _, of := range append(c.joined, slot{uid: c.peer.uid}) {
		if t.open[of]--; t.open[of] == 0 {
			delete(t.open, of)
		}
	}
}

// allow takes one request of a caller.
func (t *conns) allow(c access.Caller, now time.Duration) bool {
	of := slot{uid: c.UID}
	if c.Member != 0 {
		of = slot{inside: true, member: c.Member}
	} else if c.UID == 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	full := time.Duration(t.limits.burst) * time.Second / time.Duration(t.limits.rate)
	b := t.rates[of]
	if b == nil {
		// One that is full again is worth forgetting.
		maps.DeleteFunc(t.rates, func(_ slot, b *bucket) bool { return now-b.at > full })
		b = &bucket{Limiter: rate.NewLimiter(rate.Limit(t.limits.rate), t.limits.burst)}
		t.rates[of] = b
	}
	b.at = now
	return b.AllowN(time.Unix(0, 0).Add(now), 1)
}

// idle tells for how long nobody has been connected.
func (t *conns) idle() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all > 0 {
		return 0
	}
	return t.clock() - t.left
}

// admitting is a listener that gives only connections that there is room for.
type admitting struct {
	*net.UnixListener
	server *server
}

// peerConn is a connection with what is known of its peer.
type peerConn struct {
	*net.UnixConn
	peer *connection
}

func (a admitting) Accept() (net.Conn, error) {
	for {
		nc, err := a.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if c := a.server.accepted(nc); c != nil {
			return &peerConn{nc, c}, nil
		}
	}
}

// accepted makes the first judgement of a new connection. It gives nil, and has
// closed the connection, if there is no room for it.
func (s *server) accepted(nc net.Conn) *connection {
	p, err := s.peerOf(nc)
	if err != nil {
		s.log.Error().Err(err).Msg("peer not read")
		nc.Close()
		return nil
	}
	if s.conns.enter(p.uid) {
		c := s.identify(p)
		if s.conns.join(c) {
			return c
		}
		s.conns.leave(c)
	} else {
		p.close()
	}
	s.tally.refused(verbLimit)
	return s.conns.turnAway(nc)
}

// turnAway closes a connection, or keeps it for a moment in which its caller can
// ask and hear why.
func (t *conns) turnAway(nc net.Conn) *connection {
	select {
	case t.leaving <- struct{}{}:
		time.AfterFunc(refusedStays, func() { nc.Close() })
		return &connection{over: true}
	default:
		nc.Close()
		return nil
	}
}
