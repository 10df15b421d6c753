//go:build linux

package api

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api/internal/require"
)

// TestDialCrowded: Dial waits for a daemon that accepts slowly.
func TestDialCrowded(t *testing.T) {
	dir, err := os.MkdirTemp("", "lngtest-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "sock")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}))
	require.NoError(t, syscall.Listen(fd, 0))
	f := os.NewFile(uintptr(fd), socket)
	ln, err := net.FileListener(f)
	f.Close()
	require.NoError(t, err)
	first, err := net.Dial("unix", socket) // fills the backlog
	require.NoError(t, err)
	defer first.Close()
	if _, err := net.Dial("unix", socket); err == nil {
		t.Fatal("the kernel keeps a second caller waiting")
	}
	srv := &http.Server{Handler: daemon(http.NotFound)}
	time.AfterFunc(100*time.Millisecond, func() { srv.Serve(ln) })
	t.Cleanup(func() { srv.Close(); ln.Close() })
	c, err := Dial(t.Context(), socket)
	require.NoError(t, err)
	c.Close()
}

// TestIdleClient: a client that sends no request does not stay connected for long.
func TestIdleClient(t *testing.T) {
	socket, ln := listen(t)
	closed := make(chan struct{}, 2)
	srv := &http.Server{Handler: daemon(http.NotFound), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	c, err := Dial(t.Context(), socket)
	require.NoError(t, err)
	defer c.Close()
	<-closed // the client has hung up
	_, err = c.Version(t.Context())
	require.NoError(t, err)
}

// TestHungUp: a daemon that hangs up is unreachable, whenever the client notices: before it has sent
// the request, or after that.
func TestHungUp(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	for range 500 {
		if _, err := Dial(t.Context(), ln.Addr().String()); err == nil || errors.Is(err, ErrNotLineage) {
			t.Fatalf("%v, want that the daemon is unreachable", err)
		}
	}
}
