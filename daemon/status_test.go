//go:build linux

package daemon_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// listenTo is a service manager; the messages that it gets are read from it.
func listenTo(t *testing.T) *net.UnixConn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return c
}

func message(t *testing.T, c *net.UnixConn) []string {
	t.Helper()
	fields, err := hear(c, time.Minute)
	require.NoError(t, err)
	return fields
}

func hear(c *net.UnixConn, patience time.Duration) ([]string, error) {
	b := make([]byte, 4096)
	c.SetReadDeadline(time.Now().Add(patience))
	n, err := c.Read(b)
	return strings.Split(string(b[:n]), "\n"), err
}

// takeAll takes the messages that are there.
func takeAll(t *testing.T, c *net.UnixConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	c.SetReadDeadline(time.Time{})
	b := make([]byte, 4096)
	err = raw.Read(func(fd uintptr) bool {
		for {
			if _, _, err := unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT); err != nil && err != unix.EINTR {
				return true
			}
		}
	})
	require.NoError(t, err)
}

func until(t *testing.T, c *net.UnixConn, field string) []string {
	t.Helper()
	for {
		if fields := message(t, c); slices.Contains(fields, field) {
			return fields
		}
	}
}

func TestManager(t *testing.T) {
	c := listenTo(t)
	hup := make(chan os.Signal)
	w := daemontest.New(t, func(w *daemontest.Daemon) {
		w.Host.Manager = &system.Manager{Present: true, Watchdog: 30 * time.Millisecond}
		w.Host.Hup = hup
	})
	if first := message(t, c); !slices.Equal(first, []string{"READY=1"}) {
		t.Errorf("first %q", first)
	}
	alive := until(t, c, "WATCHDOG=1")
	if want := "STATUS=level 4, observe, 0 sessions"; !slices.Contains(alive, want) {
		t.Errorf("told %q, want %q", alive, want)
	}

	hup <- unix.SIGHUP
	again := until(t, c, "RELOADING=1")
	if len(again) != 2 || !strings.HasPrefix(again[1], "MONOTONIC_USEC=") {
		t.Errorf("told %q", again)
	}
	until(t, c, "READY=1")

	require.NoError(t, w.Service.Registry.Read(func(v registry.View) { v.Degrade("one\nREADY=1") }))
	until(t, c, "STATUS=level 4, observe, 0 sessions; degraded: one READY=1")

	w.Halt()
	until(t, c, "STOPPING=1")
}

// No watchdog message may be sent while the registry's goroutine is stuck.
func TestManagerStuckOwner(t *testing.T) {
	c := listenTo(t)
	w := daemontest.New(t, func(w *daemontest.Daemon) {
		w.Host.Manager = &system.Manager{Present: true, Watchdog: 3 * time.Millisecond}
	})
	until(t, c, "WATCHDOG=1")
	stuck, free := make(chan bool), make(chan bool)
	go w.Service.Registry.Read(func(v registry.View) { close(stuck); <-free })
	<-stuck
	takeAll(t, c) // what was sent before
	// One answer of the registry's may be on its way. If it were not asked, there would
	// be a message each millisecond.
	heard := 0
	for deadline := time.Now().Add(200 * time.Millisecond); ; heard++ {
		if fields, err := hear(c, time.Until(deadline)); errors.Is(err, os.ErrDeadlineExceeded) {
			break
		} else if err != nil || heard > 0 {
			t.Errorf("told %q of a stuck registry: %v", fields, err)
			break
		}
	}
	close(free)
	until(t, c, "WATCHDOG=1")
}
