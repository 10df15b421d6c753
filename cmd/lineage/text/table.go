package text

import (
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api/display"
)

const (
	// minCell is the least width to which a cell is cut to make room for the others.
	minCell = 8
	// maxCell is how wide a column is if nothing is cut: a longer cell moves only the rest of
	// its own row.
	maxCell = 48
)

// table aligns rows of cells, which it sanitises. On a terminal it leaves out the columns named
// in drop, in that order, until the rest fits; then it cuts the widest ones. Headers without
// rows are only for programs.
type table struct {
	rows   [][]string
	colors [][]string // of cells, by row; a row may have none
	drop   []string   // by their headers in the first row; nil: it has no headers
	wide   string     // the headers of columns that only -o wide and --columns show
	first  bool       // the first column may be long, instead of the last
	ragged bool       // the columns are not aligned: an agent that reads this pays for blanks
}

func header(columns []string) []string {
	return strings.Fields(strings.ToUpper(strings.Join(columns, " ")))
}

func (t *table) row(cells ...string) { t.paintedRow(nil, cells...) }

func (t *table) paintedRow(colors []string, cells ...string) {
	for i := range cells {
		cells[i] = display.Text(cells[i])
	}
	t.rows = append(t.rows, cells)
	t.colors = append(t.colors, append(colors[:len(colors):len(colors)],
		make([]string, max(len(cells)-len(colors), 0))...))
}

func (t *table) write(p *Page) {
	headed := t.drop != nil
	if headed && len(t.rows) == 1 && p.Width > 0 {
		return
	}
	if headed && len(p.Columns) > 0 {
		t.pick(p.Columns)
		t.drop = nil
	} else if !p.Wide {
		for _, name := range strings.Fields(t.wide) {
			t.remove(name)
		}
	}
	widths := t.widths()
	if p.cuts() {
		for _, name := range t.drop {
			if least(widths, t.long(len(widths))) <= p.Width {
				break
			}
			t.remove(name)
			widths = t.widths()
		}
		shrink(widths, t.long(len(widths)), p.Width)
	} else {
		for i, w := range widths {
			widths[i] = min(w, maxCell)
		}
	}
	for n, row := range t.rows {
		var b strings.Builder
		for i, cell := range row {
			if p.cuts() {
				cell = Fit(cell, widths[i])
			}
			b.WriteString(p.paint(t.colors[n][i], cell))
			switch {
			case i == len(row)-1, t.ragged && cell == "":
			case t.ragged:
				b.WriteString(gap)
			default:
				b.WriteString(strings.Repeat(" ", max(widths[i]-width(cell), 0)+len(gap)))
			}
		}
		p.Line("%s", strings.TrimRight(b.String(), " "))
	}
}

// pick keeps only these columns, in this order.
func (t *table) pick(names []string) {
	var from []int
	for _, name := range names {
		from = append(from, slices.Index(t.rows[0], strings.ToUpper(name)))
	}
	for n := range t.rows {
		row, colors := make([]string, len(from)), make([]string, len(from))
		for to, i := range from {
			row[to], colors[to] = t.rows[n][i], t.colors[n][i]
		}
		t.rows[n], t.colors[n] = row, colors
	}
}

const gap = "  "

func (t *table) widths() (widths []int) {
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(cell))
		}
	}
	return widths
}

func (t *table) remove(header string) {
	i := slices.Index(t.rows[0], header)
	if i < 0 {
		return
	}
	for n := range t.rows {
		t.rows[n] = slices.Delete(t.rows[n], i, i+1)
		t.colors[n] = slices.Delete(t.colors[n], i, i+1)
	}
}

// long is the column that is cut before the others.
func (t *table) long(columns int) int {
	if t.first {
		return 0
	}
	return columns - 1
}

// least is the total width if the long column has only room for a name.
func least(widths []int, long int) (n int) {
	for i, w := range widths {
		if i == long {
			w = min(w, 2*minCell)
		}
		n += w + len(gap)
	}
	return n - len(gap)
}

// shrink cuts the long column, and then the widest ones, until all fit.
func shrink(widths []int, long, room int) {
	if len(widths) == 0 {
		return
	}
	name := min(widths[long], 2*minCell)
	widths[long] = min(widths[long], max(name, room-least(widths, long)+name))
	for least(widths, -1) > room {
		i := slices.Index(widths, slices.Max(widths))
		if widths[i] <= minCell {
			return // the page cuts the line
		}
		widths[i]--
	}
}
