//go:build linux

package service

import (
	"net"
	"sync"
)

// narrow is a listener with a limit of open connections.
type narrow struct {
	net.Listener
	room chan struct{}
}

// Accept waits for room first: a connection that waits to be accepted costs
// nothing.
func (n *narrow) Accept() (net.Conn, error) {
	n.room <- struct{}{}
	c, err := n.Listener.Accept()
	if err != nil {
		<-n.room
		return nil, err
	}
	return &narrowConn{Conn: c, leave: sync.OnceFunc(func() { <-n.room })}, nil
}

type narrowConn struct {
	net.Conn
	leave func()
}

func (c *narrowConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
