//go:build linux

package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// serve listens on an address, with SO_REUSEADDR as Go does, says "up" to the marker, and closes each connection;
// "busy" if it cannot listen.
func serve(address string) int {
	time.AfterFunc(time.Minute, func() { os.Exit(97) })
	marker, err := os.OpenFile(os.Getenv("LNGTEST_MARKER"), os.O_WRONLY, 0)
	if err != nil {
		return 99
	}
	l, err := net.Listen("tcp4", address)
	if err != nil {
		fmt.Fprintln(marker, "busy", err)
		return 98
	}
	fmt.Fprintln(marker, "up")
	for {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}
}

// TestReplacedServer: LNGTEST_REPLACED times, a server with SO_REUSEADDR never finds its port busy, although each
// leaves a connection in TIME_WAIT.
func TestReplacedServer(t *testing.T) {
	rounds := stage.FromEnv(t, "LNGTEST_REPLACED", 10)
	i := stage.NewDaemon(t)
	m := stage.NewMarker(t, i.Dir)
	address := stage.FreeAddr(t)
	var before *stage.Process
	for n := range rounds {
		next := i.Start([]string{"run", "--name", "lngtest-served", "--exclusive=replace", "--grace", "0s", "--",
			os.Args[0], "lngtest-serve", address}, m.Env())
		m.Wait("answer", func(bool) bool { return len(m.Lines("up"))+len(m.Lines("busy")) > n })
		if len(m.Lines("busy")) > 0 {
			t.Fatalf("round %d: %s", n, m.Text)
		}
		c, err := net.Dial("tcp4", address)
		require.NoError(t, err)
		_, err = io.ReadAll(c)
		require.NoError(t, err)
		c.Close()
		if before != nil {
			require.Contains(t, before.Wait().Err.String(), "ended on request")
		}
		before = next
	}
	i.Finish(m, before, "--now", "lngtest-served")
	t.Logf("figure: %d servers with SO_REUSEADDR replaced one another, none found its port in use", rounds)
}
