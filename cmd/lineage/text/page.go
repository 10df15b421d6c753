package text

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Page is a place for human text.
type Page struct {
	Wide  bool
	Color bool
	Width int // columns; 0: not a terminal
	Now   time.Time

	w *bufio.Writer
}

// NewPage is a page of unknown width, at the time now.
func NewPage(w io.Writer, now time.Time) *Page { return &Page{w: bufio.NewWriter(w), Now: now} }

// On is the same page at another place.
func (p *Page) On(w io.Writer) *Page {
	q := *p
	q.w = bufio.NewWriter(w)
	return &q
}

// Line writes a line.
func (p *Page) Line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

// Print writes text that is no whole line yet.
func (p *Page) Print(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

// Flush writes out what the page has.
func (p *Page) Flush() error {
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// The colours, ANSI-16 only. A word or a letter always says the same.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (p *Page) paint(color, s string) string {
	if !p.Color || color == "" || s == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

// Command shows what pr runs, in full on a wide page.
func (p *Page) Command(pr *api.Process) string {
	return display.Command(pr.Argv, pr.Comm, pr.ArgvTruncated, p.limit())
}

func (p *Page) limit() int {
	if p.Wide {
		return 0
	}
	return display.CommandBytes
}

// Fit cuts s, sanitised text, to n columns.
func Fit(s string, n int) string { return ansi.Truncate(s, n, "…") }

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

func (t *table) write(p *Page) {
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
			if last && p.Width > 0 && !p.Wide {
				cell = Fit(cell, max(p.Width-used, 8))
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
		p.Line("%s", strings.TrimRight(b.String(), " "))
	}
}

// clock shows a time of today as hour, minute and second, else with its date.
func (p *Page) clock(t *time.Time) string {
	if t == nil {
		return "?"
	}
	local := t.In(p.Now.Location())
	if y, m, d := p.Now.Date(); local.Year() != y || local.Month() != m || local.Day() != d {
		return local.Format(time.DateTime)
	}
	return local.Format(time.TimeOnly)
}

// since shows how long ago t was.
func (p *Page) since(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return display.Age(p.Now.Sub(*t))
}

// Count writes a number with its noun.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
