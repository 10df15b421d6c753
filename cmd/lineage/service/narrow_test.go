//go:build linux

package service

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestNarrow: a connection over the limit waits until another one is closed.
func TestNarrow(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &narrow{ln, make(chan struct{}, 1)}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	first, err := n.Accept()
	require.NoError(t, err)
	dial()
	var room atomic.Bool
	second := make(chan net.Conn)
	go func() {
		c, err := n.Accept()
		if err != nil || !room.Load() {
			t.Errorf("accepted without room, %v", err)
		}
		second <- c
	}()
	room.Store(true)
	first.Close()
	first.Close() // closing twice must free one place only
	(<-second).Close()
	ln.Close()
	if _, err := n.Accept(); err == nil || len(n.room) != 0 {
		t.Errorf("%v, %d inside", err, len(n.room))
	}
}
