package panes

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
)

// boxColumns limits the width of a dialog.
const boxColumns = 100

// Lines draws the dialog as a box on a screen of that size.
func (d *Dialog) Lines(l *Labels, width, height int) []string {
	d.page = max(height/2, 1)
	columns := min(width, boxColumns)
	inner := columns - 4
	head, list, foot := d.text(l, inner)
	rows := max(height-2-len(head)-len(foot)-2, 1)
	d.offset = min(max(d.offset, 0), max(len(list)-rows, 0))
	more := ""
	if len(list) > rows {
		more = fmt.Sprintf(" %d-%d of %d %s%s ", d.offset+1, d.offset+rows, len(list), l.Up, l.Down)
		list = list[d.offset : d.offset+rows]
	}
	var lines []string
	for _, part := range [][]string{head, list, foot} {
		for _, s := range part {
			lines = append(lines, " "+s+strings.Repeat(" ", max(inner-ansi.StringWidth(s), 0))+" ")
		}
	}
	return l.Box(ink.Frame{Title: d.title(), Foot: more, Focused: true}, lines, columns, len(lines)+2)
}

func (d *Dialog) title() string {
	switch {
	case d.stage == Done:
		return "Result"
	case d.stage == Sending && d.kills():
		return "Killing"
	case d.stage == Sending:
		return "Ending"
	case d.kills():
		return "Kill"
	}
	return "End"
}

// text is the text of a dialog: a fixed head and foot, and a scrollable list between
// them.
func (d *Dialog) text(l *Labels, columns int) (head, list, foot []string) {
	put := func(to *[]string, p ink.Paint, s string) {
		line := l.Line(columns)
		line.Put(p, s)
		*to = append(*to, line.String())
	}
	if q := d.question(); q != "" {
		put(&head, l.Strong, q)
	}
	if d.list == nil || columns != d.wide {
		d.write(l, func(p ink.Paint, s string) { put(&list, p, s) }, columns)
		d.list, d.wide = list, columns
	}
	list = d.list
	switch d.stage {
	case Done:
		put(&foot, l.Dim, "Enter closes")
		return head, list, foot
	case Sending:
		put(&foot, l.Warn, d.countdown(l)+"Esc closes this window; ending continues")
		return head, list, foot
	}
	why := d.blocked()
	if why != "" && d.choice > 0 {
		put(&foot, l.Warn, "not yet: "+why)
	} else {
		put(&foot, l.Dim, d.means())
	}
	return head, list, append(foot, d.buttons(l, columns, why != ""))
}

// countdown says when the session gets SIGKILL.
func (d *Dialog) countdown(l *Labels) string {
	s := l.Picture.Session(d.Session)
	if s == nil || s.Session.Deadline == nil {
		return ""
	}
	return l.Until(s.Session.Deadline) + ". "
}

func (d *Dialog) buttons(l *Labels, columns int, blocked bool) string {
	line := l.Line(columns)
	for i, c := range d.choices {
		if i > 0 {
			line.Put(ink.Paint{}, "  ")
		}
		text, p := "  "+c+"  ", ink.Paint{}
		switch {
		case i == d.choice:
			button := l.Selected(columns, true)
			button.Put(ink.Paint{}, "[ "+c+" ]")
			line.Join(button)
			continue
		case i > 0 && blocked:
			p = l.Dim
		}
		line.Put(p, text)
	}
	return line.String()
}

func (d *Dialog) question() string {
	switch {
	case d.stage == Done:
		return ""
	case d.stage == Sending:
		return d.Name
	case d.kills():
		return "Kill " + d.Name + " only? What it started stays."
	}
	return "End session " + d.Name + "?"
}

func (d *Dialog) means() string {
	switch {
	case d.choice == 0:
		return "Cancel: no signal is sent."
	case d.kills() && d.choice == 1:
		return "SIGTERM: the process may clean up, or ignore it."
	case d.kills():
		return "SIGKILL: the process dies at once."
	case d.choice == 1:
		return fmt.Sprintf("SIGTERM to all processes, SIGKILL to those left after %v; also to all that they start meanwhile.", d.Grace)
	}
	return "SIGKILL to all processes at once, and to all that they start meanwhile."
}

func (d *Dialog) write(l *Labels, put func(ink.Paint, string), columns int) {
	switch {
	case d.err != nil:
		for _, s := range ink.Wrap(d.Name+": "+display.Error(d.err), columns) {
			put(l.Bad, strings.TrimLeft(s, " "))
		}
	case d.report != nil && d.report.Verdict != "":
		d.receipt(l, put)
	case d.report != nil, d.killed != nil:
		text, _ := d.outcome()
		put(ink.Paint{}, text)
	case d.kills():
		put(ink.Paint{}, fmt.Sprintf("%d %s", d.Process.PID, l.Command(d.Process)))
		put(l.Dim, "  locked to "+d.Process.Ref.String()+": another process with that PID is safe")
	case d.plan == nil:
		put(l.Dim, d.Name+": asking what would die"+l.Dots)
	default:
		d.planned(l, put)
	}
}

func (d *Dialog) planned(l *Labels, put func(ink.Paint, string)) {
	p := d.plan
	die, spared := 0, 0
	for i := range p.Processes {
		if p.Processes[i].Killable {
			die++
		} else {
			spared++
		}
	}
	switch {
	case p.RefusedBy != "":
		put(l.Bad, d.Name+": refused: "+display.Text(p.RefusedBy))
		return
	case len(p.Processes) == 0:
		put(l.Dim, d.Name+": "+cmp.Or(display.Text(p.State), "over")+": nothing to end")
		return
	}
	head := d.Name + ": " + display.Count(die, "process", "processes") + " will be killed"
	if spared > 0 {
		head += fmt.Sprintf(", %d cannot be killed", spared)
	}
	put(l.Warn, head)
	rows, notes := display.Plan(p, named(l))
	list(l, put, rows, notes)
}

func named(l *Labels) display.Names {
	return display.Names{Command: func(p *api.Process) string { return l.Fit(l.Command(p), 48) }}
}

// list writes rows about processes, and what there is to say about all of them.
func list(l *Labels, put func(ink.Paint, string), rows []display.Row, notes []display.Note) {
	paints := [...]ink.Paint{display.Plain: {}, display.Faint: l.Dim,
		display.Warn: l.Warn, display.Bad: l.Bad}
	for i := range rows {
		r := &rows[i]
		put(paints[r.Tone], fmt.Sprintf("  %s %s  %s", r.PID, r.Command, r.How))
	}
	for _, n := range notes {
		put(paints[n.Tone], "  "+n.Text)
	}
}

// outcome is the result on one line, and whether it is as requested.
func (d *Dialog) outcome() (text string, ok bool) {
	switch {
	case d.err != nil:
		return d.Name + ": " + display.Error(d.err), false
	case d.killed != nil:
		word := map[string]string{"sent": "the signal was sent", "gone": "it had exited already",
			"refused": "refused"}[d.killed.Outcome]
		return d.Name + ": " + cmp.Or(word, display.Text(d.killed.Outcome)), d.killed.Outcome != "refused"
	}
	return d.Name + ": " + display.Verdict(d.report), d.report.Verdict == api.VerdictClean
}

func (d *Dialog) receipt(l *Labels, put func(ink.Paint, string)) {
	text, ok := d.outcome()
	look := l.Live
	if !ok {
		look = l.Bad
	}
	put(look, text)
	words := display.Receipted(d.report, named(l))
	list(l, put, words.Rows, words.Notes)
}
