//go:build linux

package access

import (
	"net"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

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

// peerConn is a connection with what is known of its peer.
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

// Leave removes a closed connection from the count.
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
			a.o.Log.Error().Any(system.KeyPanic, panicked.Value).Bytes(system.KeyStack, panicked.Stack).Msg("panic over a caller")
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
