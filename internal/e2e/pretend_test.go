//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// A member that makes the link of its file show the path of a rule stays in its session,
// whether it asks or the daemon looks, and ends with it. One that executes the file there
// leaves it.
func TestPretenders(t *testing.T) {
	for _, level := range []int{4, 2} {
		for kind, rule := range map[string]string{
			"keep":   "keep: [{name: cache, match: {exe: %s}, reason: shared, until: 2099-01-01}]\n",
			"shared": "brokers: {shared: [{name: cache, match: {exe: %s}, end: never}]}\n",
		} {
			t.Run(fmt.Sprintf("%s/level=%d", kind, level), func(t *testing.T) {
				i := stage.New(t)
				program := i.Copy(stage.Program("pretend"))
				trusted := filepath.Join(i.Dir, "trusted", "cache")
				text := require.ReadFile(t, program)
				require.NoError(t, errors.Join(os.Mkdir(filepath.Dir(trusted), 0o755), os.WriteFile(trusted, text, 0o755)))
				rule := fmt.Sprintf(rule, trusted)
				p := &pretender{i, i.Daemon("--policy", i.Policy(rule), "--level", fmt.Sprint(level)), rule}
				for _, how := range []string{"mount", "map", "share"} {
					if kept := p.run(t, how, program, trusted); len(kept) > 0 {
						t.Errorf("%s: in session %s", how, kept[0].ID)
					}
				}
				kept := p.run(t, "exec", program, trusted)
				if len(kept) != 1 || kept[0].KeepRule != "cache" {
					t.Fatalf("the file itself: %+v", kept)
				}
				i.End("--now", kept[0].ID)
			})
		}
	}
}

type pretender struct {
	*stage.Instance
	daemon *stage.Process
	rule   string
}

// run has a member ask to be kept, and the daemon look at all members, and ends the
// session. It returns the sessions that are left.
func (p *pretender) run(t *testing.T, how, program, trusted string) []api.Session {
	t.Helper()
	m := stage.NewMarker(t, p.Dir)
	run := p.StartNobody(m.Env(), "run", "--name", how, "--grace", "0s", "--", program, how, trusted,
		p.Copy(stage.Lineage), "keep", "--reason", "mine", "--until", "1h")
	m.Ready()
	// The second one is applied when all of the first has been done.
	for _, grace := range []string{"3s", "4s"} {
		p.Policy(p.rule + "defaults: {grace: " + grace + "}\n")
		require.NoError(t, p.daemon.Process.Signal(unix.SIGHUP))
		p.Until("policy that is applied", func() bool {
			for _, v := range stage.Query[api.Policy](p.Instance, "policy", "show").Items {
				if v.Key == "defaults.grace" {
					return v.Value == grace
				}
			}
			return false
		})
	}
	p.End(how)
	run.Wait()
	left := stage.Query[api.Sessions](p.Instance, "ls").Items
	if len(left) == 0 {
		m.MustBeGone()
	} else {
		t.Cleanup(m.MustBeGone)
	}
	return left
}
