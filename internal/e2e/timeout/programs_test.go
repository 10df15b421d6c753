//go:build linux

package timeout

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestPrograms: nothing of an escape program is left when lineage timeout returns, in a session and without a daemon, or
// lineage run --leaks; and the exit code says why.
func TestPrograms(t *testing.T) {
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
		for _, e := range stage.Escapes() {
			// A subreaper looks for its descendants, so it may not end what forks without a pause.
			if door.in == silent && (strings.HasPrefix(e.Program, "hop") || strings.HasPrefix(e.Program, "bomb")) {
				continue
			}
			t.Run(door.name+"/"+e.Program, func(t *testing.T) {
				i := door.in.In(t)
				m := stage.NewMarker(t, i.Dir)
				cmd := i.Command(slices.Concat(door.args, e.Argv()), m.Env())
				in, err := cmd.StdinPipe()
				require.NoError(t, err)
				p := stage.Start(t, cmd)
				m.Wait("members, or the end", func(bool) bool {
					return p.Exited() || len(m.Lines("ready")) > 0 && len(m.Lines("member")) >= e.Members
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
