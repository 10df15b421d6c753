//go:build linux

package fleet

import (
	"os"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// The sessions of three hosts are below the rows of their hosts, a host that cannot be
// reached says why, and an end reaches only its own host. A daemon that stops and comes
// back is shown again.
func TestTopOverThree(t *testing.T) {
	f := start(t)
	var markers []*stage.Marker
	for _, i := range f.hosts[:3] {
		m := stage.NewMarker(t, i.Dir)
		markers = append(markers, m)
		i.Run(m, []string{"--name", "shared", "--grace", "0s"}, "daemonise", "stay")
		m.Ready()
	}
	has := func(words ...string) func(string) bool {
		return func(screen string) bool {
			for _, word := range words {
				if !strings.Contains(screen, word) {
					return false
				}
			}
			return true
		}
	}
	var ids []string
	for n, i := range f.hosts[:3] {
		ids = append(ids, []string{"h0/", "h1/", "h2/"}[n]+i.Session("shared").ID)
	}
	screen := f.hosts[0].TerminalOf(110, 40, "env", "PATH="+f.path("bin")+":"+os.Getenv("PATH"), stage.Lineage, "top", "-H", "h0,h1,h2,down")
	screen.See("three hosts, and one that is down", has(append(ids, "unreachable: ", "onnection refused")...))

	// The session of h1 ends, the others stay alive.
	screen.Press("/")
	screen.Type(ids[1])
	screen.Press("Enter")
	screen.Press("x")
	screen.See("what would die", has("shared: 2 processes will be killed"))
	screen.Insist("choice to end", has("[ End ]"), "Left", "Right")
	screen.Insist("the end", func(s string) bool { return !strings.Contains(s, "[ End ]") }, "Enter")
	screen.See("result", has("clean"))
	markers[1].Gone()
	for _, n := range []int{0, 2} {
		if !markers[n].Drain() {
			t.Fatalf("the session of h%d was ended", n)
		}
	}
	screen.Insist("end of the dialog", func(s string) bool { return !strings.Contains(s, "Enter closes") }, "Enter")

	// h2's daemon stops and comes back.
	f.daemons[2].Stop()
	screen.See("h2 out of reach", func(s string) bool { return !strings.Contains(s, ids[2]) && strings.Count(s, "unreachable: ") == 2 })
	f.hosts[2].Daemon()
	screen.See("h2 again", has(ids[0], ids[2]))
	screen.Press("q")
	for _, n := range []int{0, 2} {
		f.hosts[n].End("--now", "shared")
		markers[n].MustBeGone()
	}
}
