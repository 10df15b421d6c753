package panes

import (
	"cmp"
	"fmt"
	"strings"
	"time"

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
	case d.stage == Sending && d.kill:
		return "Killing"
	case d.stage == Sending:
		return "Ending"
	case d.kill:
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
	if now := (drawn{columns, d.stage, d.answers()}); d.list == nil || now != d.drawn {
		for _, target := range d.targets {
			target.write(l, d, func(p ink.Paint, s string) { put(&list, p, s) }, columns)
		}
		d.list, d.drawn = list, now
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

// countdown says when the first of the sessions gets SIGKILL.
func (d *Dialog) countdown(l *Labels) string {
	var first *time.Time
	for _, t := range d.targets {
		s := l.Picture.Session(t.Session)
		if s == nil || t.over() || s.Session.Deadline == nil {
			continue
		}
		if first == nil || s.Session.Deadline.Before(*first) {
			first = s.Session.Deadline
		}
	}
	if first == nil {
		return ""
	}
	return l.Until(first) + ". "
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
	case d.stage == Sending && len(d.targets) == 1:
		return d.targets[0].Name
	case d.stage == Sending:
		return fmt.Sprintf("%d targets", len(d.targets))
	case d.kill && len(d.targets) == 1:
		return "Kill " + d.targets[0].Name + " only? What it started stays."
	case d.kill:
		return fmt.Sprintf("Kill these %d processes only? What they started stays.", len(d.targets))
	case len(d.targets) == 1:
		return "End session " + d.targets[0].Name + "?"
	}
	return fmt.Sprintf("End these %d sessions?", len(d.targets))
}

// means says what the choice does.
func (d *Dialog) means() string {
	switch {
	case d.choice == 0:
		return "Cancel: no signal is sent."
	case d.kill && d.choice == 1:
		return "SIGTERM: the process may clean up, or ignore it."
	case d.kill:
		return "SIGKILL: the process dies at once."
	case d.choice == 1:
		return fmt.Sprintf("SIGTERM to all processes, SIGKILL to those left after %v; also to all that they start meanwhile.", d.grace())
	}
	return "SIGKILL to all processes at once, and to all that they start meanwhile."
}

// grace is the longest grace of the sessions.
func (d *Dialog) grace() time.Duration {
	var most time.Duration
	for _, t := range d.targets {
		most = max(most, t.Grace)
	}
	return most
}

// write shows a target and its result.
func (t *DialogTarget) write(l *Labels, d *Dialog, put func(ink.Paint, string), columns int) {
	switch {
	case t.err != nil:
		for _, s := range ink.Wrap(t.Name+": "+display.Error(t.err), columns) {
			put(l.Bad, strings.TrimLeft(s, " "))
		}
	case t.report != nil && t.report.Verdict != "":
		t.receipt(l, put)
	case t.report != nil, t.killed != nil:
		text, _ := t.outcome()
		put(ink.Paint{}, text)
	case d.kill:
		put(ink.Paint{}, fmt.Sprintf("%d %s", t.Process.PID, l.Command(&t.Process)))
		put(l.Dim, "  locked to "+t.Process.Ref.String()+": another process with that PID is safe")
	case t.plan == nil:
		put(l.Dim, t.Name+": asking what would die"+l.Dots)
	default:
		t.planned(l, put)
	}
}

// planned lists what would die, and how.
func (t *DialogTarget) planned(l *Labels, put func(ink.Paint, string)) {
	p := t.plan
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
		put(l.Bad, t.Name+": refused: "+display.Text(p.RefusedBy))
		return
	case len(p.Processes) == 0:
		put(l.Dim, t.Name+": "+cmp.Or(display.Text(p.State), "over")+": nothing to end")
		return
	}
	head := t.Name + ": " + display.Count(die, "process", "processes") + " will be killed"
	if spared > 0 {
		head += fmt.Sprintf(", %d cannot be killed", spared)
	}
	put(l.Warn, head)
	rows, notes := display.Plan(p, named(l))
	list(l, put, rows, notes)
}

// named names processes as the dialog does.
func named(l *Labels) display.Names {
	return display.Names{Command: func(p *api.Process) string { return l.Fit(l.Command(p), 48) }}
}

// list writes rows about processes, and what there is to say about all of them.
func list(l *Labels, put func(ink.Paint, string), rows []display.Row, notes []display.Note) {
	paints := [...]ink.Paint{display.Plain: {}, display.Faint: l.Dim, display.Warn: l.Warn, display.Bad: l.Bad}
	for i := range rows {
		r := &rows[i]
		put(paints[r.Tone], fmt.Sprintf("  %s %s  %s", r.PID, r.Command, r.How))
	}
	for _, n := range notes {
		put(paints[n.Tone], "  "+n.Text)
	}
}

// outcome is the result on one line, and whether it is as requested.
func (t *DialogTarget) outcome() (text string, ok bool) {
	switch {
	case t.err != nil:
		return t.Name + ": " + display.Error(t.err), false
	case t.killed != nil:
		word := map[string]string{"sent": "the signal was sent", "gone": "it had exited already",
			"refused": "refused"}[t.killed.Outcome]
		return t.Name + ": " + cmp.Or(word, display.Text(t.killed.Outcome)), t.killed.Outcome != "refused"
	case t.report == nil:
		return t.Name + ": nothing was sent", true
	}
	return t.Name + ": " + display.Verdict(t.report), t.report.Verdict == api.VerdictClean
}

// receipt lists how each process ended.
func (t *DialogTarget) receipt(l *Labels, put func(ink.Paint, string)) {
	text, ok := t.outcome()
	look := l.Live
	if !ok {
		look = l.Bad
	}
	put(look, text)
	words := display.Receipted(t.report, named(l))
	list(l, put, words.Rows, words.Notes)
}
