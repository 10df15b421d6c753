package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// command shows what pr runs, in full on a wide page.
func (p *page) command(pr *api.Process) string {
	return display.Command(pr.Argv, pr.Comm, pr.ArgvTruncated, p.limit())
}

func (p *page) limit() int {
	if p.wide {
		return 0
	}
	return display.CommandBytes
}

// fit cuts s, sanitised text, to n columns.
func fit(s string, n int) string { return ansi.Truncate(s, n, "…") }

// width is the number of columns that s, sanitised text, takes.
func width(s string) int { return ansi.StringWidth(s) }

// table aligns rows of sanitised cells; the last one of a row may be long and
// is cut to the terminal.
type table struct {
	rows   [][]string
	colors [][]string // of cells, by row; a row may have none
}

func (t *table) row(cells ...string) { t.paintedRow(nil, cells...) }

func (t *table) paintedRow(colors []string, cells ...string) {
	t.rows = append(t.rows, cells)
	t.colors = append(t.colors, colors)
}

func (t *table) write(p *page) {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(cell))
		}
	}
	for n, row := range t.rows {
		var b strings.Builder
		used := 0
		for i, cell := range row {
			last := i == len(row)-1
			if last && p.width > 0 && !p.wide {
				cell = fit(cell, max(p.width-used, 8))
			}
			color := ""
			if i < len(t.colors[n]) {
				color = t.colors[n][i]
			}
			b.WriteString(p.paint(color, cell))
			if !last {
				b.WriteString(strings.Repeat(" ", widths[i]-width(cell)+2))
				used += widths[i] + 2
			}
		}
		p.line("%s", strings.TrimRight(b.String(), " "))
	}
}

// clock shows a time of today as hour, minute and second, else with its date.
func (p *page) clock(t *time.Time) string {
	if t == nil {
		return "?"
	}
	local := t.In(p.now.Location())
	if y, m, d := p.now.Date(); local.Year() != y || local.Month() != m || local.Day() != d {
		return local.Format(time.DateTime)
	}
	return local.Format(time.TimeOnly)
}

// since shows how long ago t was.
func (p *page) since(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return display.Age(p.now.Sub(*t))
}

// count writes a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
