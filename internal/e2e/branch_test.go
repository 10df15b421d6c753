//go:build linux

package e2e

import (
	"strconv"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// branching is a session whose root is a bystander. It has two branches: a program, and
// its sibling.
type branching struct {
	*stage.Instance
	program, sibling *stage.Marker
	root             *stage.Bystander
	of               string // PID@START of the program
}

func branch(i *stage.Instance, name string, words ...string) *branching {
	i.T.Helper()
	b := &branching{Instance: i, program: stage.NewMarker(i.T, i.Dir), sibling: stage.NewMarker(i.T, i.Dir)}
	own := stage.NewMarker(i.T, i.Dir)
	script := `LNGTEST_MARKER="$1" "$2" setsid </dev/null & LNGTEST_MARKER="$3"; export LNGTEST_MARKER; shift 3
		LNGTEST_MARKER="$1"; shift; "$@" </dev/null & LNGTEST_MARKER="$OWN" exec "$0" lngtest-root`
	args := append([]string{"run", "--name", name, "--grace", "0s", "--", "sh", "-c", script, stage.Program("bystander"),
		b.sibling.Path, stage.Program("detach"), own.Path, b.program.Path, stage.Program(words[0])}, words[1:]...)
	cmd := i.Command(args, append(own.Env(), "OWN="+own.Path))
	b.root = stage.StartBystander(own, cmd)
	b.sibling.Members(1)
	b.program.Ready()
	i.Until("program in the tree", func() bool {
		for _, n := range i.Tree(name).Nodes {
			if n.Exe == stage.Program(words[0]) && n.Creator != nil && n.Creator.PID == b.root.PID {
				b.of = n.Ref.String()
			}
		}
		return b.of != ""
	})
	return b
}

// mustBeAlone fails unless the program is gone and the rest of the session untouched.
func (b *branching) mustBeAlone(name string) {
	b.T.Helper()
	b.program.MustBeGone()
	if err := b.root.Untouched(); err != nil {
		b.T.Error(err)
	}
	if !b.sibling.Drain() {
		b.T.Error("the sibling is dead")
	}
	if s := b.Session(name); s.State != api.StateActive || s.Live != 3 { // including the sibling's child
		b.T.Errorf("the session is %s with %d members", s.State, s.Live)
	}
}

func (b *branching) finish(name string) {
	b.T.Helper()
	b.End("--now", name)
	b.sibling.MustBeGone()
	b.root.Wait()
}

// The end of a branch with 50 constantly forking threads, whose grandchildren lose
// their parents: nothing of it is left; its sibling and the root are untouched.
// LNGTEST_BRANCHES rounds.
func TestBranchForkers(t *testing.T) {
	i := stage.NewDaemon(t)
	n := stage.FromEnv(t, "LNGTEST_BRANCHES", 3)
	for round := range n {
		name := "branch-" + strconv.Itoa(round)
		b := branch(i, name, "forkers", "50", "60", "50000")
		end := i.End("--branch", "--now", b.of)
		b.mustBeAlone(name)
		b.finish(name)
		if t.Failed() {
			t.Fatalf("round %d of %d: %v", round+1, n, end)
		}
	}
}
