//go:build linux

package escapes

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// few are the rows that each door is tried with; with LNGTEST_CELLS=all these are all that need only the program.
var few = []string{"daemon", "daemon_noenv", "nested_subreaper", "hop_fast", "zombie_leader", "ignore_all"}

// TestDoors: nothing of a program is left when another door than lineage run returns: lineage timeout, in a session and without a
// daemon, and lineage run --leaks; and the exit code says why.
func TestDoors(t *testing.T) {
	through := few
	if os.Getenv("LNGTEST_CELLS") == "all" {
		through = programs
	}
	silent := stage.New(t)
	require.NoError(t, os.Mkdir(silent.Socket, 0o755)) // no daemon can listen there
	t.Cleanup(func() { require.NoError(t, os.Remove(silent.Socket)) })
	served := stage.NewDaemon(t)
	other := stage.NewBystander(served, "timeout", 0)
	limit := require.Slowed(2 * time.Second).String()
	for _, door := range []struct {
		name string
		in   *stage.Instance
		args []string
		code int // of a program that takes no signal: 137
	}{
		{"session", served, []string{"timeout", "-k", ".1", limit}, 124},
		{"subreaper", silent, []string{"timeout", "-k", ".1", limit}, 124},
		// The shell exits when the program is in place: at the end of its input.
		{"leaks", served, []string{"run", "--leaks", "fail", "--grace", "100ms", "--", "sh", "-c", `"$@" </dev/null & read -r line; exit 0`, "sh"}, 123},
	} {
		for _, r := range rows {
			// A subreaper looks for its descendants, so it may not end what forks without a pause.
			if !slices.Contains(through, r.name) || strings.Contains(r.program, "{") ||
				door.in == silent && (strings.HasPrefix(r.name, "hop") || strings.HasPrefix(r.name, "bomb")) {
				continue
			}
			t.Run(door.name+"/"+r.name, func(t *testing.T) {
				i := door.in.In(t)
				m := stage.NewMarker(t, i.Dir)
				cmd := i.Command(slices.Concat(door.args, stage.Argv(r.program)), m.Env())
				in, err := cmd.StdinPipe()
				require.NoError(t, err)
				p := stage.Start(t, cmd)
				m.Wait("members, or the end", func(bool) bool {
					return p.Exited() || len(m.Lines("ready")) > 0 && len(m.Lines("member")) >= r.members
				})
				_ = in.Close() // it is closed if the program has ended
				p.Wait()
				m.MustBeGone()
				if code := p.Code(); code != door.code && (door.code != 124 || code != 137) {
					t.Errorf("%v", p)
				}
			})
		}
	}
	other.MustBeUntouched()
}
