//go:build linux

package access

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// Limits bound what callers can take of the daemon.
type Limits struct {
	Conns       int // a 16th is reserved for root, another 4th for callers outside of sessions
	UIDConns    int // of one uid except root: in sessions, and outside of them
	MemberConns int // of the members of one session
	Rate, Burst int // requests a second of one uid except root, or of the members of one session
	Large       int // replies of any size at once to one uid except root, and to the members of its sessions
}

// Fitting leaves half of the descriptors to other files; a connection has two: its own
// and its peer's.
func (l Limits) Fitting() Limits {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		l.Conns = int(min(uint64(l.Conns), files.Cur/4))
	}
	return l
}

// rooms are how many connections there may be: in all, without those reserved for root,
// and without those reserved for callers outside of sessions too.
func (l Limits) rooms() (root, outside, members int) {
	return l.Conns, l.Conns - l.Conns/16, l.Conns - l.Conns/16 - l.Conns/4
}

// conns counts the open connections and the requests, so that no caller can take them
// all. A connection over a limit is not counted, and is closed soon: see turnAway.
type conns struct {
	limits Limits
	clock  func() time.Duration

	mu    sync.Mutex
	all   int
	open  map[slot]int
	by    map[uint32][]*Connection // joined ones by uid, oldest first
	rates map[slot]*bucket
	large map[slot]*queue
	left  time.Duration // when the last one was closed

	leaving chan struct{} // has one item for each refused connection that is still open
}

// slot is the unit of counting: a uid, the members of a uid's sessions, or the members
// of one session.
type slot struct {
	uid    uint32
	inside bool
	member tracer.SessionID
}

// bucket is how much a caller may still send.
type bucket struct {
	*rate.Limiter
	at time.Duration // of the last request
}

// queue is for the requests with a reply of any size.
type queue struct {
	turns    chan struct{} // one item for each request that has its turn
	requests int           // that have or wait for their turn
}

func newConns(l Limits, clock func() time.Duration) *conns {
	return &conns{
		limits:  l,
		clock:   clock,
		open:    make(map[slot]int),
		by:      make(map[uint32][]*Connection),
		rates:   make(map[slot]*bucket),
		large:   make(map[slot]*queue),
		left:    clock(),
		leaving: make(chan struct{}, maxLeaving),
	}
}

// enter counts a connection of a uid, if there is room. It comes before any expensive
// question about the peer.
func (t *conns) enter(uid uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	root, room, _ := t.limits.rooms()
	if uid == 0 {
		room = root
	}
	of := slot{uid: uid}
	if uid != 0 && t.open[of] >= 2*t.limits.UIDConns || t.all >= room && !t.makeRoom(uid) {
		return false
	}
	t.all++
	t.open[of]++
	return true
}

// makeRoom closes the newest connection of the uid that has the most, if that has at least two more
// than the uid that is to get in. So a user with many uids cannot keep other users out.
func (t *conns) makeRoom(uid uint32) bool {
	most := t.open[slot{uid: uid}] + 1
	var newest *Connection
	for of, all := range t.by {
		if of != 0 && len(all) > most {
			most, newest = len(all), all[len(all)-1]
		}
	}
	if uid == 0 || newest == nil {
		return false
	}
	t.uncount(newest)
	newest.close()
	return true
}

// uncount removes a connection from the count, once.
func (t *conns) uncount(c *Connection) {
	if c.uncounted {
		return
	}
	c.uncounted = true
	t.all--
	uid := c.peer.UID
	for _, of := range append(c.joined, slot{uid: uid}) {
		if t.open[of]--; t.open[of] == 0 {
			delete(t.open, of)
		}
	}
	if t.by[uid] = slices.DeleteFunc(t.by[uid],
		func(o *Connection) bool { return o == c }); len(t.by[uid]) == 0 {
		delete(t.by, uid)
	}
}

// join counts an entered connection for the session that its peer is in. Members and
// other callers of a uid have separate shares, so that a user can end a session that
// keeps sending requests.
func (t *conns) join(c *Connection) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	uid := c.peer.UID
	inside := slot{uid: uid, inside: true}
	if c.caller.Member == 0 {
		if uid != 0 && t.open[slot{uid: uid}]-t.open[inside] > t.limits.UIDConns {
			return false
		}
		t.by[uid] = append(t.by[uid], c)
		return true
	}
	session := slot{inside: true, member: c.caller.Member}
	_, _, room := t.limits.rooms()
	if t.all > room || uid != 0 && t.open[inside] >= t.limits.UIDConns || t.open[session] >= t.limits.MemberConns {
		return false
	}
	c.joined = []slot{inside, session}
	for _, of := range c.joined {
		t.open[of]++
	}
	t.by[uid] = append(t.by[uid], c)
	return true
}

// leave removes a connection from the count, and closes what pins its peer.
func (t *conns) leave(c *Connection) {
	if c.over {
		<-t.leaving
		return
	}
	c.peer.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = t.clock()
	t.uncount(c)
}

func (t *conns) allow(c Caller, now time.Duration) bool {
	of := slot{uid: c.UID}
	if c.Member != 0 {
		of = slot{inside: true, member: c.Member}
	} else if c.UID == 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	full := time.Duration(t.limits.Burst) * time.Second / time.Duration(t.limits.Rate)
	b := t.rates[of]
	if b == nil {
		// A bucket that is full again can be forgotten.
		maps.DeleteFunc(t.rates, func(_ slot, b *bucket) bool { return now-b.at > full })
		b = &bucket{Limiter: rate.NewLimiter(rate.Limit(t.limits.Rate), t.limits.Burst)}
		t.rates[of] = b
	}
	b.at = now
	return b.AllowN(time.Unix(0, 0).Add(now), 1)
}

// turn waits for a caller's turn until ctx is done; done ends the turn.
func (t *conns) turn(ctx context.Context, c Caller) (done func(), err error) {
	of := slot{uid: c.UID, inside: c.Member != 0}
	t.mu.Lock()
	q := t.large[of]
	if q == nil {
		q = &queue{turns: make(chan struct{}, t.limits.Large)}
		t.large[of] = q
	}
	q.requests++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if q.requests--; q.requests == 0 {
			delete(t.large, of)
		}
	}
	select {
	case q.turns <- struct{}{}:
		return func() { <-q.turns; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// Open is the number of open connections; refused ones do not count.
func (a *Access) Open() int {
	a.conns.mu.Lock()
	defer a.conns.mu.Unlock()
	return a.conns.all
}

// Idle is how long there has been no connection.
func (a *Access) Idle() time.Duration {
	a.conns.mu.Lock()
	defer a.conns.mu.Unlock()
	if a.conns.all > 0 {
		return 0
	}
	return a.o.Clock() - a.conns.left
}
