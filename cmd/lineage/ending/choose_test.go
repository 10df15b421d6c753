package ending

import (
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// Only sessions without a root end, never a kept one, and never one that contains a
// session with a live root.
func TestLeftBehind(t *testing.T) {
	session := func(id, parent string, live, leftovers int) api.Session {
		return api.Session{ID: id, Parent: parent, State: "active", Live: live, Leftovers: leftovers}
	}
	kept := session("kept00", "", 2, 2)
	kept.Kept = true
	ending := session("ending", "", 2, 2)
	ending.State = "ending"
	keptWithin := session("k00000", "l33333", 1, 1)
	keptWithin.Kept = true
	all := []api.Session{
		session("living", "", 3, 0), session("inner0", "living", 1, 1), // its own root is gone
		session("l11111", "", 4, 4), session("nested", "l11111", 2, 2), session("deeper", "nested", 1, 1),
		session("l22222", "", 4, 4), session("middle", "l22222", 1, 1), session("agent0", "middle", 1, 0),
		session("l33333", "", 2, 2), keptWithin,
		session("idle00", "", 0, 0), kept, ending,
	}
	ids, spared := leftBehind(all, nil)
	if want := []string{"inner0", "l11111"}; !slices.Equal(ids, want) {
		t.Errorf("would end %v, want %v", ids, want)
	}
	text := strings.Join(spared, "\n")
	for _, id := range []string{"kept00", "l22222", "middle", "l33333", "k00000"} {
		if !strings.Contains(text, "session "+id+" ") && !strings.Contains(text, "session "+id+":") {
			t.Errorf("nothing is said of %s:\n%s", id, text)
		}
	}
	for only, want := range map[string][]string{"l11111": {"l11111"}, "nested": {"nested"}, "living": nil, "kept00": nil, "l22222": nil} {
		if ids, _ := leftBehind(all, map[string]bool{only: true}); !slices.Equal(ids, want) {
			t.Errorf("of %s would end %v, want %v", only, ids, want)
		}
	}
}
