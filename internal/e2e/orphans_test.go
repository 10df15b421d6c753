//go:build linux

package e2e

import (
	"fmt"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// Zombies are listed with the parent that must reap them. Leftovers of a dead root are
// ended, and the rest stays alive.
func TestOrphans(t *testing.T) {
	i := stage.NewDaemon(t)
	const pile = 200
	zombies := stage.NewMarker(t, i.Dir)
	parent := i.Run(zombies, []string{"--name", "pile"}, "zombies", fmt.Sprint(pile))
	zombies.Ready()
	left := stage.NewMarker(t, i.Dir)
	i.Run(left, []string{"--name", "left", "--on-exit", "report"}, "daemonise").Wait()

	i.Agrees("ls --left", func() error {
		var leftovers, piled int
		for _, o := range stage.Query[api.Orphans](i, "ls", "--left").Items {
			switch {
			case o.Why == api.WhyLeftover && o.SessionName == "left":
				leftovers++
			case o.Why == api.WhyZombie && o.SessionName == "pile" && o.Reaper != nil && o.Reaper.Comm == "lngtest-zombies" &&
				o.Reaper.StartNS != 0 && o.Reaper.Session == o.Session:
				piled++
			default:
				return fmt.Errorf("%+v", o)
			}
		}
		if leftovers != 1 || piled != pile {
			return fmt.Errorf("%d leftovers and %d zombies, want 1 and %d", leftovers, piled, pile)
		}
		return nil
	})
	i.Must("end", "--left", "--yes")
	left.MustBeGone()
	if !zombies.Drain() || parent.Exited() {
		t.Error("a session whose root lives was ended")
	}
	i.End("--now", "pile")
	zombies.MustBeGone()
}
