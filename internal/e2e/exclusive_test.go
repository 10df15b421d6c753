//go:build linux

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// serve listens on a port of 127.0.0.1, says "up" to the marker, and closes each connection; "busy" if it cannot
// listen. plain: without SO_REUSEADDR; once: it exits when it has listened.
func serve(port, how string) int {
	time.AfterFunc(time.Minute, func() { os.Exit(97) })
	marker, err := os.OpenFile(os.Getenv("LNGTEST_MARKER"), os.O_WRONLY, 0)
	if err != nil {
		return 99
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			if how == "plain" {
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 0)
			}
		})
	}}
	l, err := config.Listen(context.Background(), "tcp4", "127.0.0.1:"+port)
	if err != nil {
		fmt.Fprintln(marker, "busy", err)
		return 98
	}
	fmt.Fprintln(marker, "up")
	for how != "once" {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}
	return 0
}

// servers are commands that serve, each in a session of the same name.
type servers struct {
	*stage.Instance
	m    *stage.Marker
	port string
}

func newServers(i *stage.Instance) *servers {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(i.T, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return &servers{i, stage.NewMarker(i.T, i.Dir), port}
}

func (s *servers) start(exclusive, how string) *stage.Process {
	return s.Start([]string{"run", "--name", "lngtest-served", "--exclusive=" + exclusive, "--grace", "0s", "--",
		os.Args[0], "lngtest-serve", s.port, how}, s.m.Env())
}

// said waits for the n-th answer of a server, and returns how many were busy.
func (s *servers) said(n int) (busy int) {
	s.m.Wait(fmt.Sprintf("answer %d", n), func(bool) bool {
		busy = len(s.m.Lines("busy"))
		return len(s.m.Lines("up"))+busy >= n
	})
	return busy
}

// connect leaves a connection in TIME_WAIT at the server's side.
func (s *servers) connect() {
	c, err := net.Dial("tcp4", "127.0.0.1:"+s.port)
	require.NoError(s.T, err)
	_, err = io.ReadAll(c)
	require.NoError(s.T, err)
	c.Close()
}

// TestReplacedServer: LNGTEST_REPLACED times, a server with SO_REUSEADDR never finds its port busy; one without
// finds it so, and the line of what was ended for it names the port and TIME_WAIT.
func TestReplacedServer(t *testing.T) {
	rounds := stage.FromEnv(t, "LNGTEST_REPLACED", 10)
	i := stage.NewDaemon(t)
	s := newServers(i)
	var before *stage.Process
	for n := range rounds {
		next := s.start(api.ExclusiveReplace, "reuse")
		if busy := s.said(n + 1); busy != 0 {
			t.Fatalf("round %d: %s", n, s.m.Text)
		}
		s.connect()
		if before != nil {
			require.Contains(t, before.Wait().Err.String(), "ended on request")
		}
		before = next
	}
	s.Finish(s.m, before, "--now", "lngtest-served")
	for range max(1, rounds/20) {
		s := newServers(i)
		first := s.start(api.ExclusiveReplace, "plain")
		require.Equal(t, s.said(1), 0)
		s.connect()
		second := s.start(api.ExclusiveReplace, "plain")
		require.Equal(t, s.said(2), 1)
		require.Equal(t, second.Wait().Code(), 98)
		require.Contains(t, second.Err.String(), "; tcp 127.0.0.1:"+s.port+" has 1 connection in TIME_WAIT")
		first.Wait()
	}
	t.Logf("figure: %d servers with SO_REUSEADDR replaced one another, none found its port in use", rounds)
}

// TestExclusiveRuns: of eight that start at a time, LNGTEST_EXCLUSIVE times, never two run: the second one would
// find the port busy. One of them has the name, those that do not wait for it exit with 75.
func TestExclusiveRuns(t *testing.T) {
	rounds := stage.FromEnv(t, "LNGTEST_EXCLUSIVE", 6)
	i := stage.NewDaemon(t)
	for n := range rounds {
		s := newServers(i.In(t))
		exclusive := api.Exclusive[n%len(api.Exclusive)]
		how, last := "reuse", 1
		if exclusive == api.ExclusiveWait {
			how, last = "once", 0
		}
		all := make([]*stage.Process, 8)
		for k := range all {
			all[k] = s.start(exclusive, how)
		}
		live := func() int {
			return len(slices.DeleteFunc(slices.Clone(all), (*stage.Process).Exited))
		}
		i.Until("end of the others", func() bool { return live() == last })
		for _, p := range all {
			if p.Exited() && exclusive != api.ExclusiveReplace && p.Code() != 75*last {
				t.Errorf("round %d: %v", n, p)
			}
		}
		if last == 1 {
			i.End("--now", "lngtest-served")
			i.Until("end of the last one", func() bool { return live() == 0 })
		}
		s.m.Drain()
		ups := len(s.m.Lines("up"))
		if len(s.m.Lines("busy")) > 0 || exclusive == api.ExclusiveWait && ups != 8 {
			t.Errorf("round %d, %s: %s", n, exclusive, s.m.Text)
		}
	}
	t.Logf("figure: %d rounds of eight at a time, never two ran", rounds)
}
