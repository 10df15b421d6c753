package panes

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/picture"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// names are the columns of a set; PORTS is the wider one.
func names(s Columns) string {
	var all []string
	for _, c := range s {
		name := c.name
		if c.width == 7+morePorts {
			name = strings.ToUpper(name)
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

func TestFit(t *testing.T) {
	for _, tt := range []struct {
		width int
		table bool
		want  string
	}{
		{20, false, ""},
		{40, false, "cpu rss"},
		{64, false, "live orphans leftovers cpu rss age"},
		{70, false, "live orphans leftovers cpu rss ports age"},
		{78, false, "live orphans leftovers zombies cpu rss ports age"},
		{126, false, "live orphans leftovers zombies cpu rss PORTS age"},
		{198, false, "live orphans leftovers zombies cpu rss PORTS age"},
		{40, true, "live orphans leftovers"},
		{78, true, "live orphans leftovers zombies cpu rss ports age"},
		{118, true, "live orphans leftovers zombies cpu rss PORTS age"},
	} {
		s := Fit(tt.width, tt.table)
		if got := names(s); got != tt.want {
			t.Errorf("%d %t: %s, want %s", tt.width, tt.table, got, tt.want)
		}
		if w := ink.Width(ansi.Strip(s.Head(ink.New("auto"), picture.ByAge, " "))); w != s.Width() {
			t.Errorf("%d: the head is %d wide, the set %d", tt.width, w, s.Width())
		}
	}
}

// One key goes through every column and back to the first.
func TestNext(t *testing.T) {
	s, by, seen := Fit(198, false), picture.ByAge, map[picture.Sort]bool{}
	for range 9 {
		seen[by] = true
		by = s.Next(by)
	}
	if len(seen) != 9 || by != picture.ByAge {
		t.Errorf("%v, and then %v", seen, by)
	}
}

// The arrow is on the sort column.
func TestHead(t *testing.T) {
	s, theme := Fit(78, false), ink.New("mono")
	for by, want := range map[picture.Sort]string{picture.ByRSS: "▼RSS", picture.ByAge: "▼AGE"} {
		require.Contains(t, ansi.Strip(s.Head(theme, by, "─")), want)
	}
}
