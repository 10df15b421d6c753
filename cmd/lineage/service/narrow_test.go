//go:build linux

package service

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestNarrow: a connection over the limit waits until another one is closed.
func TestNarrow(t *testing.T) {
	var room atomic.Bool
	m, err := ListenMetrics(t.Context(), "127.0.0.1:0", func(http.ResponseWriter, *http.Request) {}, time.Minute, zerolog.Nop())
	require.NoError(t, err)
	go m.Serve(t.Context())
	ask := func() net.Conn {
		c, err := net.Dial("tcp", m.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")
		require.NoError(t, err)
		return c
	}
	answered := func(c net.Conn) {
		_, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
	}
	first := ask()
	answered(first)
	for range maxConns - 1 {
		answered(ask())
	}
	last := ask()
	// A server without the limit answers in less time.
	time.AfterFunc(100*time.Millisecond, func() { room.Store(true); first.Close() })
	answered(last)
	if !room.Load() {
		t.Error("served without room")
	}
}
