//go:build linux

package access

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// Peer is the process that connected, as the socket layer noted it at connect(2). A
// connection can outlive it and can be passed on: its requests are always judged as
// those of the process that made it.
type Peer struct {
	PID, UID, GID uint32
	Groups        []uint32 // supplementary
	PIDFD         int      // -1: none, its identity is compared
	Gone          bool     // it was reaped before we asked
	Away          bool     // in another PID namespace
	Hidden        error    // why its PID namespace cannot be read
}

// PeerOf asks the socket, and not procfs, whose answers about a process may have to wait for that process. SO_PEERPIDFD
// pins the process, so that a PID that was reused before we look is noticed.
func PeerOf(c net.Conn) (Peer, error) {
	p := Peer{PIDFD: -1}
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return p, fmt.Errorf("read peer: %w: not a unix socket", errors.ErrUnsupported)
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return p, fmt.Errorf("read peer: %w", err)
	}
	var cred *unix.Ucred
	var credErr, pidfdErr error
	err = raw.Control(func(fd uintptr) {
		if cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); credErr != nil {
			return
		}
		if p.Groups, credErr = peerGroups(int(fd)); credErr != nil {
			return
		}
		p.PIDFD, pidfdErr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	})
	if err := errors.Join(err, credErr); err != nil {
		return p, fmt.Errorf("read peer: %w", err)
	}
	p.PID, p.UID, p.GID = uint32(cred.Pid), cred.Uid, cred.Gid
	if errors.Is(pidfdErr, unix.ENOPROTOOPT) { // before 6.5: of the process that has the PID now
		p.PIDFD, pidfdErr = unix.PidfdOpen(int(cred.Pid), 0)
	}
	switch {
	case errors.Is(pidfdErr, unix.ESRCH), errors.Is(pidfdErr, unix.EINVAL):
		p.PIDFD, p.Gone = -1, true
	case pidfdErr != nil:
		return p, fmt.Errorf("open peer: %w", pidfdErr)
	default:
		p.Away, p.Hidden = procfs.Nested(p.PIDFD)
	}
	return p, nil
}

// peerGroups are the supplementary groups that the peer had at connect(2).
func peerGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch {
		case errno == 0:
			return groups[:size/4], nil
		case errno != unix.ERANGE || int(size/4) <= len(groups):
			return nil, errno
		}
		groups = make([]uint32, size/4)
	}
}

func (p Peer) close() {
	if p.PIDFD >= 0 {
		unix.Close(p.PIDFD)
	}
}

// Connection is what is known of one connection's peer. It is judged first at accept,
// and later judgements only narrow that.
type Connection struct {
	peer   Peer
	over   bool   // there is no room for it: nothing else is known, every request is refused
	joined []slot // the slots that it counts for, beside its uid
	close  func() // closes it; set before it joins
	// uncounted: it was closed for another, or has left.
	uncounted bool

	mu     sync.Mutex
	caller Caller // as it was last seen; of no identity: it was never identified
}

// Identify judges a peer for the first time.
func (a *Access) Identify(p Peer) *Connection {
	conn := &Connection{peer: p, caller: Caller{UID: p.UID, Redact: a.o.Redact}}
	c := &conn.caller
	var err error
	if c.ID, err = a.o.Kernel.Identify(p.PID); err != nil {
		c.Lost = true
		return conn
	}
	c.Comm = a.o.Proc.Comm(p.PID)
	if c.Lost = p.Gone || p.PIDFD >= 0 && procfs.Exited(p.PIDFD); c.Lost {
		c.Comm = ""
		return conn // identity and name may be those of another process
	}
	c.Group = a.o.Group >= 0 && (int(p.GID) == a.o.Group || slices.Contains(p.Groups, uint32(a.o.Group)))
	c.Foreign, c.Unplaced = p.Away || p.Hidden != nil, p.Hidden
	a.judge(conn)
	return conn
}

// judge returns the caller as it is now. A dead peer stays what it was: a connection
// that a member has passed to its child is still a member's, and one that an operator
// has passed on may do nothing.
func (a *Access) judge(conn *Connection) Caller {
	conn.mu.Lock()
	defer conn.mu.Unlock()
	c := &conn.caller
	if !c.Lost {
		e, err := a.o.Kernel.Lookup(conn.peer.PID)
		// present comes last: it confirms the answer before it.
		c.Lost = err != nil && !errors.Is(err, tracer.ErrNotFound) || !a.present(conn)
		switch {
		case c.Lost:
		case err == nil && e.Identity == c.ID:
			c.Member = e.Session
		case err == nil || c.Member != 0:
			c.Lost = true // a stale entry, or a member that is dying
		}
	}
	now := *c
	now.owed = new(owed)
	return now
}

func (a *Access) present(c *Connection) bool {
	if c.peer.PIDFD >= 0 {
		return !procfs.Exited(c.peer.PIDFD) // then its PID is still its own
	}
	id, err := a.o.Kernel.Identify(c.peer.PID)
	return err == nil && id == c.caller.ID
}

// How many refused connections stay open, and for how long, so that their callers can
// read the reason.
const (
	maxLeaving   = 64
	refusedStays = 200 * time.Millisecond
)

// listener returns only connections for which there is room.
type listener struct {
	*net.UnixListener
	access *Access
}

type peerConn struct {
	*net.UnixConn
	peer *Connection
}

// Listen returns the connections of ln for which there is room. Each of them must be
// passed to [Access.Leave] when it is closed.
func (a *Access) Listen(ln *net.UnixListener) net.Listener { return listener{ln, a} }

func (l listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if c := l.access.accepted(nc); c != nil {
			return &peerConn{nc, c}, nil
		}
	}
}

// Of returns what is known of the peer of a connection that [Access.Listen] returned.
func Of(nc net.Conn) *Connection { return nc.(*peerConn).peer }

func (a *Access) Leave(c *Connection) { a.conns.leave(c) }

// accepted judges a new connection for the first time. If too many are open, it closes
// this one and returns nil.
func (a *Access) accepted(nc net.Conn) *Connection {
	p, err := a.o.Peer(nc)
	if err != nil {
		a.o.Log.Error().Err(err).Msg("caller of a connection not identified")
		nc.Close()
		return nil
	}
	if a.conns.enter(p.UID) {
		c := &Connection{peer: p}
		if panicked := procfs.CatchPanic(func() { c = a.Identify(p) }); panicked != nil {
			a.o.Log.Error().Any(system.KeyPanic, panicked.Value).
				Bytes(system.KeyStack, panicked.Stack).Msg("panic over a caller")
			a.conns.leave(c)
			nc.Close()
			return nil
		}
		c.close = func() { nc.Close() }
		if a.conns.join(c) {
			return c
		}
		a.conns.leave(c)
	} else {
		p.close()
	}
	a.count(verbLimit)
	return a.conns.turnAway(nc)
}

// turnAway closes a connection, or keeps it for a moment in which its caller can send a
// request and read why it is refused.
func (t *conns) turnAway(nc net.Conn) *Connection {
	select {
	case t.leaving <- struct{}{}:
		time.AfterFunc(refusedStays, func() { nc.Close() })
		return &Connection{over: true}
	default:
		nc.Close()
		return nil
	}
}
