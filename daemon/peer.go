//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/daemon/access"
)

// peer is the process that connected, as the socket layer noted it at
// connect(2). A connection can outlive it and can be handed on: whoever uses
// it is judged as the process that made it.
type peer struct {
	pid, uid, gid uint32
	pidfd         int // -1: the kernel has none (before 6.5)
}

// peerOf asks the socket. SO_PEERPIDFD pins the process, so that a PID that
// was reused before we look is noticed.
func peerOf(c net.Conn) (peer, error) {
	p := peer{pidfd: -1}
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return p, fmt.Errorf("read peer: %w: no unix socket", errors.ErrUnsupported)
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
			p.pidfd = pidfd
		}
	})
	if err := errors.Join(err, credErr); err != nil {
		return p, fmt.Errorf("read peer: %w", err)
	}
	p.pid, p.uid, p.gid = uint32(cred.Pid), cred.Uid, cred.Gid
	return p, nil
}

// close gives the pidfd back.
func (p peer) close() {
	if p.pidfd >= 0 {
		unix.Close(p.pidfd)
	}
}

// exited reports that a process that a pidfd pins is dead.
func exited(pidfd int) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err != nil || n != 0
}

// connection is what is known of one connection's peer. Its first judgement is
// made at accept and only gets narrower.
type connection struct {
	peer   peer
	over   bool   // there is no room for it: nothing else is known, every request is refused
	joined []slot // that it counts for, beside its uid

	mu     sync.Mutex
	id     tracer.Identity // zero: was never identified
	comm   string
	group  bool
	alien  bool             // in another PID namespace, or unknown
	member tracer.SessionID // the last session that it was seen in
	lost   bool
}

// identify makes the first judgement.
func (s *server) identify(p peer) *connection {
	c := &connection{peer: p}
	id, err := s.kernel.Identify(p.pid)
	if err != nil {
		c.lost = true
		return c
	}
	c.id = id
	if c.lost = p.pidfd >= 0 && exited(p.pidfd); c.lost {
		return c // the identity may be somebody else's
	}
	st, err := s.proc.Status(p.pid)
	if err == nil {
		c.comm = st.Name
		c.group = s.group >= 0 && (int(p.gid) == s.group || slices.Contains(st.GIDs, uint32(s.group)))
	}
	ns, err := s.proc.PIDNamespace(p.pid)
	c.alien = err != nil || ns != s.pidNamespace
	s.judge(c)
	return c
}

// judge says who the caller is now. A dead peer stays what it was: a member's
// connection in the hands of its child is a member's still, and an operator's
// is nobody's.
func (s *server) judge(c *connection) access.Caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lost {
		e, err := s.kernel.Lookup(c.peer.pid)
		// Present is asked last: it vouches for the answer before it.
		c.lost = err != nil && !errors.Is(err, tracer.ErrNotFound) || !s.present(c)
		switch {
		case c.lost:
		case err == nil && e.Identity == c.id:
			c.member = e.Session
		case err == nil || c.member != 0:
			c.lost = true // a stale entry, or a member that is dying
		}
	}
	return access.Caller{
		UID: c.peer.uid, ID: c.id, Comm: c.comm, Group: c.group, Member: c.member,
		Lost: c.lost, Foreign: c.alien,
	}
}

// present reports that the peer's PID is still the peer.
func (s *server) present(c *connection) bool {
	if c.peer.pidfd >= 0 {
		return !exited(c.peer.pidfd) // and so its PID is its own
	}
	id, err := s.kernel.Identify(c.peer.pid)
	return err == nil && id == c.id
}
