package ending

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// chooses are the ids of the sessions that would end, and what is said of those that are spared.
func chooses(t *testing.T, all []api.Session, uid int, sel api.Selection) (ids []string, spared string) {
	t.Helper()
	var said bytes.Buffer
	e := Ender{Sessions: sel, UID: uid, Client: &apitest.Client{Has: apitest.Has{Sessions: all}}, Console: &cli.Console{Stderr: &said}}
	targets, err := e.choose(t.Context())
	require.NoError(t, err)
	for _, x := range targets {
		ids = append(ids, x.word)
	}
	return ids, said.String()
}

// TestChooses: whatever the sessions are, those that would end, those that are spared with a reason and those inside one
// that ends are what ls shows of the selection, each once; of those that no word names alone nothing kept, of others or at work ends.
func TestChooses(t *testing.T) {
	reason := regexp.MustCompile(`(?m)^lineage: end: session (\w+) is not ended: .+$`)
	selections := []api.Selection{
		{All: true}, {Words: []string{"a*"}}, {Words: []string{"a?", "s03", "s04"}}, {Words: []string{"s01", "b*"}, UID: new(1)},
		{UID: new(0)}, {UID: new(1)}, {State: "leftover"},
		{State: "kept"}, {State: "active"}, {State: "paused"}, {Idle: time.Minute}, {Idle: time.Minute, Container: "box"},
		{Container: "box"}, {Pod: "p"}, {State: "ended"},
	}
	for n := range uint64(400) {
		r := rand.New(rand.NewPCG(n, n))
		all := make([]api.Session, r.IntN(12))
		parent := map[string]string{}
		for i := range all {
			s := &all[i]
			s.ID, s.Name, s.UID, s.Live = fmt.Sprintf("s%02d", i), []string{"a1", "a2", "b1", ""}[r.IntN(4)], r.IntN(2), r.IntN(3)
			s.State = []api.SessionState{api.StateActive, api.StateActive, api.StateActive, api.StateEnding, api.StateEnded}[r.IntN(5)]
			s.Kept, s.Leftovers, s.IdleSeconds = r.IntN(5) == 0, r.IntN(2)*s.Live, float64(r.IntN(2)*r.IntN(90))
			if s.State == api.StateEnded {
				s.Live, s.Kept = 0, false
			}
			if r.IntN(3) == 0 {
				s.Container = &api.Container{Name: "box", Pod: "p"}
			}
			if r.IntN(5) == 0 {
				s.Paused = new(time.Now())
			}
			if up := &all[r.IntN(i+1)]; r.IntN(2) == 0 && up != s && up.State != api.StateEnded { // what is over has none inside
				s.Parent = up.ID
			}
			parent[s.ID] = s.Parent
		}
		for _, sel := range selections {
			for _, uid := range []int{0, 1} {
				found, err := sel.Find(t.Context(), &apitest.Client{Has: apitest.Has{Sessions: all}})
				if err != nil {
					continue // a word that names none: nothing would end
				}
				ids, said := chooses(t, all, uid, sel)
				got := strings.Join(ids, " ")
				for _, m := range reason.FindAllStringSubmatch(said, -1) {
					if got += " " + m[1]; slices.Contains(ids, m[1]) {
						t.Errorf("%+v: %s would end, and is spared", sel, m[1])
					}
				}
				for _, c := range found.Choices {
					if c.Err != nil {
						continue // a target without a session reports it
					}
					s, inside := c.Session, false
					for up := s.Parent; up != ""; up = parent[up] {
						inside = inside || slices.Contains(ids, up)
					}
					ends := slices.Contains(ids, s.ID)
					guarded := s.Kept || uid != 0 && s.UID != uid || s.State == api.StateEnded || !sel.Rests(s)
					for _, x := range all { // and what is inside
						for up := x.Parent; up != ""; up = parent[up] {
							guarded = guarded || up == s.ID && (x.Kept || x.Live > 0 && !sel.Rests(&x))
						}
					}
					if n := strings.Count(" "+got+" ", " "+s.ID+" "); n != 1 && !(n == 0 && inside) {
						t.Errorf("%d: %+v of uid %d: %s is there %d times in %q\n%s", n, sel, uid, s.ID, n, got, said)
					}
					if ends && !c.Named && guarded {
						t.Errorf("%+v of uid %d: %+v would end", sel, uid, s)
					}
				}
				for _, id := range strings.Fields(got) {
					if !slices.ContainsFunc(found.Choices, func(c api.Choice) bool { return c.Session != nil && c.Session.ID == id }) {
						t.Errorf("%+v: %s is not what ls shows", sel, id)
					}
				}
			}
		}
	}
}
