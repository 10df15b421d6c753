//go:build linux

package e2e

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Sessions that do nothing are idle and end. One whose grandchild is busy, one with an open tool
// call, and one with a client at its port are not, and live. A bad duration signals nothing.
func TestIdle(t *testing.T) {
	long := require.Slowed(4 * time.Second)
	i := stage.NewDaemon(t)
	m := map[string]*stage.Marker{}
	start := func(name string, program ...string) *stage.Process {
		m[name] = stage.NewMarker(t, t.TempDir())
		return i.Run(m[name], []string{"--name", name, "--grace", "0s"}, program[0], program[1:]...)
	}
	quiet := start("quiet", "under", "under", "ignoreterm")
	unused := start("unused", "port", "0")
	busy := start("busy", "under", "under", "burn")
	served := start("served", "port", "0")
	for _, name := range []string{"quiet", "busy"} {
		m[name].Ready()
	}
	m["unused"].Line("port", 1)
	client, err := net.Dial("tcp", "127.0.0.1:"+m["served"].Line("port", 1)[0])
	require.NoError(t, err)
	defer client.Close()
	m["agent"] = stage.NewMarker(t, i.Dir)
	agent := hooked(i, m["agent"], `hook SessionStart; call PreToolUse one
echo started >&9; read -r go <"$LNGTEST_MARKER.go"; call PostToolUse one
echo ended >&9; read -r go <"$LNGTEST_MARKER.go"`)
	hold := m["agent"].Path + ".go"
	require.NoError(t, unix.Mkfifo(hold, 0o600))
	m["agent"].Line("started", 1)
	name := fmt.Sprintf("lngtest-agent-%d", agent.Process.Pid)

	idle := func(want ...string) {
		t.Helper()
		i.Agrees("ls --idle", func() error {
			var got []string
			for _, s := range stage.Query[api.Sessions](i, "ls", "--idle", long.String()).Items {
				got = append(got, s.Name)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				return fmt.Errorf("idle: %q, want %q", got, want)
			}
			return nil
		})
	}
	idle("quiet", "unused")
	for _, bad := range []string{"0", "0s", "5", "-1s", "soon"} {
		for _, command := range []string{"ls --idle=", "end --yes --idle="} {
			if p := i.Lineage(strings.Fields(command + bad)...); p.Code() != api.ExitUsage || strings.Count(p.Err.String(), "\n") != 1 || p.Out.Len() != 0 {
				t.Errorf("%s%s: %v", command, bad, p)
			}
		}
	}
	if p := i.Lineage("end", "--idle", long.String()); p.Code() != api.ExitUsage {
		t.Errorf("without a terminal: %v", p)
	}
	idle("quiet", "unused") // still there

	i.Must("end", "--idle", long.String(), "--yes")
	m["quiet"].MustBeGone()
	m["unused"].MustBeGone()
	quiet.Wait()
	unused.Wait()
	var live []string
	for _, s := range stage.Query[api.Sessions](i, "ls").Items {
		live = append(live, s.Name)
	}
	if slices.Sort(live); !slices.Equal(live, []string{"busy", name, "served"}) {
		t.Fatalf("after the end live %q", live)
	}

	// When the call is over, the time begins.
	require.NoError(t, os.WriteFile(hold, []byte("go\n"), 0))
	m["agent"].Line("ended", 1)
	idle(name)
	i.Finish(m["busy"], busy, "busy")
	i.Finish(m["served"], served, "served")
	require.NoError(t, os.WriteFile(hold, []byte("go\n"), 0))
	agent.Wait()
}
