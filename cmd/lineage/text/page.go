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

// Page is a place for text for people.
type Page struct {
	Wide  bool
	Color bool
	Width int // columns; 0: not a terminal
	Now   time.Time
	Env   func(string) string // has the locale
	Host  string              // whose answer is shown, of several; "": this one

	// Tables with headers have only these columns, in this order; none: the default ones.
	Columns []string

	w *bufio.Writer
}

// NewPage is a page of unknown width, at the time now.
func NewPage(w io.Writer, now time.Time) *Page { return &Page{w: bufio.NewWriter(w), Now: now} }

// there names the host in a command that is to be given.
func (p *Page) there() string {
	if p.Host == "" {
		return ""
	}
	return " -H " + display.Text(p.Host)
}

// Line writes a line, cut to the terminal if the page is not wide.
func (p *Page) Line(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if p.cuts() {
		line = Fit(line, p.Width)
	}
	io.WriteString(p.w, display.InLocale(p.Env, line+"\n"))
}

// cuts reports whether lines are cut to the width of the terminal.
func (p *Page) cuts() bool { return p.Width > 0 && !p.Wide }

// Wrap writes a text that would be useless in part: on a terminal it is wrapped, with
// all lines but the first indented by two more. An empty text is left out.
func (p *Page) Wrap(indent int, text string) {
	if text != "" {
		p.hang(strings.Repeat(" ", indent), indent+2, text)
	}
}

// column writes a text after a label, wrapped, with all its lines starting at that column.
func (p *Page) column(label string, column int, text string) {
	if text == "" {
		p.Line("%s", strings.TrimRight(label, " "))
		return
	}
	if p.Width > 0 && column > p.Width/2 {
		p.Line("%s", strings.TrimRight(label, " "))
		label, column = "    ", 4
	}
	p.hang(label, column, text)
}

func (p *Page) hang(label string, column int, text string) {
	lines := []string{text}
	if p.Width > 0 {
		lines = strings.Split(ansi.Wrap(text, max(p.Width-column, minCell), ""), "\n")
	}
	for i, line := range lines {
		if i > 0 {
			label = strings.Repeat(" ", column)
		}
		io.WriteString(p.w, display.InLocale(p.Env, strings.TrimRight(label+line, " ")+"\n"))
	}
}

func (p *Page) Flush() error {
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// The colours, ANSI-16 only. A word or a letter always says the same as a colour.
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

// Command shows the command of pr, in full on a wide page.
func (p *Page) Command(pr *api.Process) string { return p.command(pr.Argv, pr.Comm, pr.ArgvTruncated) }

func (p *Page) command(argv []string, comm string, truncated bool) string {
	if p.Wide {
		return display.Command(argv, comm, truncated, 0)
	}
	return display.Brief(argv, comm, truncated, display.CommandBytes)
}

// Fit cuts s, sanitised text, to n columns.
func Fit(s string, n int) string { return ansi.Truncate(s, n, "…") }

// width is the number of columns that s, sanitised text, takes.
func width(s string) int { return ansi.StringWidth(s) }

// clock shows a time as hour, minute and second, with its date unless it is today.
func (p *Page) clock(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return display.Clock(*t, p.Now)
}

// stamp is a date with time and zone, even for today.
func (p *Page) stamp(t *time.Time) string { return p.format(t, "2006-01-02 15:04:05 MST") }

// word is a stamp without a blank.
func (p *Page) word(t *time.Time) string { return p.format(t, time.RFC3339) }

func (p *Page) format(t *time.Time, layout string) string {
	if t == nil {
		return "-" // not known for a session that a reboot ended
	}
	return t.In(p.Now.Location()).Format(layout)
}

// since shows how long ago t was.
func (p *Page) since(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return display.Age(p.Now.Sub(*t))
}
