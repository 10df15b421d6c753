package tui

import (
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/panes"
)

// everywhere are keys that work in every pane, and so are in the table of none.
var everywhere = []string{"q", "ctrl+z", "ctrl+l"}

// Every key that the help names has an effect in its pane, and no pane has another.
func TestEveryKeyHasARow(t *testing.T) {
	s := shown(t, 80, 24)
	s.timeline = panes.NewTimeline("k3x9q2")
	help := map[string][]string{}
	for _, g := range s.keys.Groups() {
		pane := g.Title
		if !strings.HasPrefix(pane, "In the") {
			pane = "tree"
		}
		for _, k := range g.Keys {
			if !slices.Contains(everywhere, k.Keys()[0]) {
				help[pane] = append(help[pane], k.Help().Key+" "+k.Help().Desc)
			}
		}
	}
	all := slices.Concat(help["tree"], help["In the timeline"])
	for pane, table := range map[string]func(tea.KeyPressMsg) []ink.KeyRow{
		"tree": s.treeKeys, "In the timeline": s.timelineKeys, "events": s.eventKeys, "reader": s.readerKeys,
	} {
		var rows []string
		for _, r := range table(tea.KeyPressMsg{}) {
			rows = append(rows, r.Help().Key+" "+r.Help().Desc)
		}
		for _, k := range help[pane] {
			if !slices.Contains(rows, k) {
				t.Errorf("%s: %q has no row", pane, k)
			}
		}
		for _, r := range rows {
			if !slices.Contains(all, r) && strings.TrimSpace(r) != "" {
				t.Errorf("%s: %q is in no help", pane, r)
			}
		}
	}
}

// A key that has no effect says why.
func TestRefusedKeys(t *testing.T) {
	s := newScreen(t, newFake(), Options{}, 80, 24)
	for _, key := range []string{"x", "b"} {
		s.press(key)
		if s.message != (message{"nothing is selected", true}) {
			t.Errorf("%s: %+v", key, s.message)
		}
	}
}
