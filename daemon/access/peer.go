//go:build linux

package access

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"golang.org/x/sys/unix"
)

// Peer is the process that connected, as the socket layer noted it at connect(2). A
// connection can outlive it and can be passed on: its requests are always judged as
// those of the process that made it.
type Peer struct {
	PID, UID, GID uint32
	PIDFD         int // -1: the kernel has none (before 6.5)
}

// PeerOf asks the socket. SO_PEERPIDFD pins the process, so that a PID that
// was reused before we look is noticed.
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
	var credErr error
	err = raw.Control(func(fd uintptr) {
		if cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); credErr != nil {
			return
		}
		if pidfd, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			p.PIDFD = pidfd
		}
	})
	if err := errors.Join(err, credErr); err != nil {
		return p, fmt.Errorf("read peer: %w", err)
	}
	p.PID, p.UID, p.GID = uint32(cred.Pid), cred.Uid, cred.Gid
	return p, nil
}

// close closes the pidfd.
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

	mu     sync.Mutex
	id     tracer.Identity // zero: never identified
	comm   string
	group  bool
	alien  bool             // in another PID namespace, or unknown
	hidden error            // why its PID namespace cannot be read
	member tracer.SessionID // the last session that it was seen in
	lost   bool
}

// Identify judges a peer for the first time.
func (a *Access) Identify(p Peer) *Connection {
	c := &Connection{peer: p}
	id, err := a.o.Kernel.Identify(p.PID)
	if err != nil {
		c.lost = true
		return c
	}
	c.id = id
	if c.lost = p.PIDFD >= 0 && procfs.Exited(p.PIDFD); c.lost {
		return c // the identity may be that of another process
	}
	st, err := a.o.Proc.Status(p.PID)
	if err == nil {
		c.comm = st.Name
		c.group = a.o.Group >= 0 && (int(p.GID) == a.o.Group || slices.Contains(st.GIDs, uint32(a.o.Group)))
	}
	ns, err := a.o.Proc.PIDNamespace(p.PID)
	c.alien, c.hidden = err != nil || ns != a.o.PIDNamespace, err
	a.judge(c)
	return c
}

// judge returns the caller as it is now. A dead peer stays what it was: a connection
// that a member has passed to its child is still a member's, and one that an operator
// has passed on may do nothing.
func (a *Access) judge(c *Connection) Caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lost {
		e, err := a.o.Kernel.Lookup(c.peer.PID)
		// present comes last: it confirms the answer before it.
		c.lost = err != nil && !errors.Is(err, tracer.ErrNotFound) || !a.present(c)
		switch {
		case c.lost:
		case err == nil && e.Identity == c.id:
			c.member = e.Session
		case err == nil || c.member != 0:
			c.lost = true // a stale entry, or a member that is dying
		}
	}
	return Caller{
		UID: c.peer.UID, ID: c.id, Comm: c.comm, Group: c.group, Member: c.member,
		Lost: c.lost, Foreign: c.alien, Unplaced: c.hidden, Redact: a.o.Redact, owed: new(owed),
	}
}

// present reports whether the peer still has its PID.
func (a *Access) present(c *Connection) bool {
	if c.peer.PIDFD >= 0 {
		return !procfs.Exited(c.peer.PIDFD) // then its PID is still its own
	}
	id, err := a.o.Kernel.Identify(c.peer.PID)
	return err == nil && id == c.id
}
