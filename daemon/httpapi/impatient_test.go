//go:build linux

package httpapi

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestUnreadReply: a caller that does not read its reply is dropped, and one that reads slowly is
// not.
func TestUnreadReply(t *testing.T) {
	const stall = time.Second
	s := newServer(t, Options{Stall: stall})
	over := make(chan struct{}, 1)
	text := strings.Repeat("x", 4<<20)
	srv := httptest.NewUnstartedServer(s.serve(func(w http.ResponseWriter, _ *http.Request, _ access.Caller) error {
		defer func() { over <- struct{}{} }()
		return reply(w, http.StatusOK, text)
	}))
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	srv.Listener.Close()
	srv.Listener = ln
	srv.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return s.caller(ctx, 1001) }
	srv.Start()
	t.Cleanup(srv.Close)
	ask := func() net.Conn {
		c, err := net.Dial("unix", ln.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: lineage\r\nConnection: close\r\n\r\n")
		return c
	}
	ask()
	require.Soon(t, over, "the daemon waits for a caller that does not read")
	c := ask()
	got := int64(0)
	for began := time.Now(); time.Since(began) < 2*stall; time.Sleep(stall / 5) {
		n, err := io.CopyN(io.Discard, c, 64<<10)
		if got += n; err != nil {
			t.Fatalf("after %d bytes: %v", got, err)
		}
	}
	n, err := io.Copy(io.Discard, c)
	if got += n; err != nil || got < int64(len(text)) || got > int64(len(text))+4096 {
		t.Errorf("%d bytes: %v", got, err)
	}
}
