package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// dialogColumns bounds the width of a dialog.
const dialogColumns = 100

// dialogLines draws the dialog as a box, each line as wide as the screen.
func (m *model) dialogLines() []string {
	d, t := m.dialog, m.theme
	columns := min(m.width, dialogColumns)
	inner := columns - 4
	head, list, foot := d.text(m, inner)
	rows := max(m.height-2-len(head)-len(foot)-2, 1)
	d.offset = min(max(d.offset, 0), max(len(list)-rows, 0))
	more := ""
	if len(list) > rows {
		more = fmt.Sprintf(" %d-%d of %d %s%s ", d.offset+1, d.offset+rows, len(list), t.up, t.down)
		list = list[d.offset : d.offset+rows]
	}
	corners := strings.Split(t.corners, "")
	h := func(n int) string { return strings.Repeat(t.horizontal, max(n, 0)) }
	margin := strings.Repeat(" ", (m.width-columns)/2)
	after := strings.Repeat(" ", m.width-columns-len(margin))
	box := []string{margin + t.key.of(corners[0]+h(columns-2)+corners[1]) + after}
	for _, part := range [][]string{head, list, foot} {
		for _, s := range part {
			pad := strings.Repeat(" ", max(inner-ansi.StringWidth(s), 0))
			box = append(box, margin+t.key.of(t.rule)+" "+s+pad+" "+t.key.of(t.rule)+after)
		}
	}
	return append(box, margin+t.key.of(corners[2]+more+h(columns-2-width(more))+corners[3])+after)
}

// text is what a dialog says: a head and a foot that stay, and a list between
// them that may be scrolled.
func (d *dialog) text(m *model, columns int) (head, list, foot []string) {
	put := func(to *[]string, p paint, s string) {
		l := m.line(columns)
		l.put(p, s)
		*to = append(*to, l.String())
	}
	t := m.theme
	put(&head, t.strong, d.question(m))
	if now := (drawn{columns, d.stage, d.answers()}); d.list == nil || now != d.drawn {
		for _, target := range d.targets {
			target.write(m, d, func(p paint, s string) { put(&list, p, s) }, columns)
		}
		d.list, d.drawn = list, now
	}
	list = d.list
	switch d.stage {
	case told:
		put(&foot, t.dim, "Enter closes")
		return head, list, foot
	case sending:
		put(&foot, t.warn, "it is being done; Esc leaves it to go on")
		return head, list, foot
	}
	why := d.blocked()
	if why != "" && d.choice > 0 {
		put(&foot, t.warn, "not yet: "+why)
	} else {
		put(&foot, t.dim, d.means())
	}
	l := m.line(columns)
	for i, c := range d.choices {
		if i > 0 {
			l.put(paint{}, "  ")
		}
		text, p := "  "+c+"  ", paint{}
		if i == d.choice {
			text, p = "[ "+c+" ]", t.selected
		} else if i > 0 && why != "" {
			p = t.dim
		}
		l.put(p, text)
	}
	foot = append(foot, l.String())
	return head, list, foot
}

func (d *dialog) question(m *model) string {
	switch {
	case d.stage == told:
		return "Result"
	case d.kill && len(d.targets) == 1:
		return "Kill " + d.targets[0].name + " only? What it started stays."
	case d.kill:
		return fmt.Sprintf("Kill these %d processes only? What they started stays.", len(d.targets))
	case len(d.targets) == 1:
		return "End session " + d.targets[0].name + "?"
	}
	return fmt.Sprintf("End these %d sessions?", len(d.targets))
}

// means says what the choice does.
func (d *dialog) means() string {
	switch {
	case d.choice == 0:
		return "Nothing is sent."
	case d.kill && d.choice == 1:
		return "SIGTERM: it may clean up, or ignore it."
	case d.kill:
		return "SIGKILL: at once."
	case d.choice == 1:
		return fmt.Sprintf("SIGTERM to all, after %v SIGKILL to what is left; what they start meanwhile too.", d.grace())
	}
	return "SIGKILL to all at once; what they start meanwhile too."
}

// grace is the longest of the sessions'.
func (d *dialog) grace() time.Duration {
	var most time.Duration
	for _, t := range d.targets {
		most = max(most, t.grace)
	}
	return most
}

// write lists what a target is about and what came of it.
func (t *target) write(m *model, d *dialog, put func(paint, string), columns int) {
	th := m.theme
	switch {
	case t.err != nil:
		for _, s := range wrap(t.name+": "+display.Text(t.err.Error()), columns) {
			put(th.bad, strings.TrimLeft(s, " "))
		}
	case t.report != nil && t.report.Verdict != "":
		t.receipt(m, put)
	case t.report != nil:
		put(paint{}, fmt.Sprintf("%s: %s, %s so far", t.name, display.Text(cmp.Or(t.report.State, api.StateEnding)), count(len(t.report.Processes)-t.report.Left, "process ended", "processes ended")))
	case t.killed != nil:
		text, _ := t.outcome()
		put(paint{}, text)
	case d.kill:
		put(paint{}, fmt.Sprintf("%d %s", t.process.PID, m.command(&t.process)))
		put(th.dim, "  frozen as "+t.process.Ref.String()+": no other process of that number is meant")
	case t.plan == nil:
		put(th.dim, t.name+": asking what would die"+th.dots)
	default:
		t.planned(m, put)
	}
}

// planned lists what would die, and how.
func (t *target) planned(m *model, put func(paint, string)) {
	th, p := m.theme, t.plan
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
		put(th.bad, t.name+": refused: "+display.Text(p.RefusedBy))
		return
	case len(p.Processes) == 0:
		put(th.dim, t.name+": "+cmp.Or(display.Text(p.State), "over")+", nothing to end")
		return
	}
	head := t.name + ": " + count(die, "process dies", "processes die")
	if spared > 0 {
		head += fmt.Sprintf(", %d could not be killed", spared)
	}
	put(th.warn, head)
	for i := range p.Processes {
		pr := &p.Processes[i]
		look, why := paint{}, display.Text(pr.Why)
		switch {
		case !pr.Killable:
			look, why = th.bad, why+"; could not be killed: "+display.Text(pr.Reason)
		case pr.Reason != "":
			look, why = th.warn, why+"; "+display.Text(pr.Reason)
		}
		put(look, fmt.Sprintf("  %d %s  (%s)", pr.PID, m.fit(m.command(&pr.Process), 48), why))
		for j := range pr.Ports {
			put(th.dim, "    holds "+display.Port(&pr.Ports[j]))
		}
		for j := range pr.Locks {
			put(th.dim, "    holds "+display.Lock(&pr.Locks[j]))
		}
	}
	for _, s := range p.Unknown {
		put(th.dim, "  not known of ports and locks: "+display.Text(s))
	}
}

// outcome is the result on one line, and whether it is what was asked for.
func (t *target) outcome() (text string, ok bool) {
	switch {
	case t.err != nil:
		return t.name + ": " + display.Text(t.err.Error()), false
	case t.killed != nil:
		word := map[string]string{"sent": "the signal was sent", "gone": "it was gone already", "refused": "refused"}[t.killed.Outcome]
		return t.name + ": " + cmp.Or(word, display.Text(t.killed.Outcome)), t.killed.Outcome != "refused"
	case t.report == nil:
		return t.name + ": nothing was sent", true
	}
	r := t.report
	all := max(len(r.Processes), 0)
	if r.Truncated {
		all = max(r.Started-r.Exited, all)
	}
	took := time.Duration(r.DurationMS * float64(time.Millisecond)).Round(time.Millisecond)
	text = fmt.Sprintf("%s ended, %s: %d of %s in %v", t.name, display.Text(cmp.Or(r.Verdict, "not over")), all-r.Left, count(all, "process", "processes"), took)
	if r.VerdictWhy != "" {
		text += "; " + display.Text(r.VerdictWhy)
	}
	return text, r.Verdict == api.VerdictClean
}

// receipt lists how each process went.
func (t *target) receipt(m *model, put func(paint, string)) {
	th := m.theme
	text, ok := t.outcome()
	look := th.live
	if !ok {
		look = th.bad
	}
	put(look, text)
	words := map[api.OutcomeKind]string{api.OutcomeSelf: "exited by itself", api.OutcomeTerm: "SIGTERM", api.OutcomeKill: "SIGKILL", api.OutcomeKept: "kept", api.OutcomeLeft: "LEFT"}
	for i := range t.report.Processes {
		o := &t.report.Processes[i]
		word := cmp.Or(words[o.Outcome], display.Text(o.Outcome))
		if o.Why != "" {
			word += ": " + display.Text(o.Why)
		}
		look := paint{}
		if o.Outcome == api.OutcomeLeft {
			look = th.bad
		}
		command := display.Command(o.Argv, o.Comm, false, m.width)
		put(look, fmt.Sprintf("  %d %s  %s", o.PID, m.fit(command, 48), word))
	}
	for _, z := range t.report.Zombies {
		put(th.zombie, fmt.Sprintf("  %d %s  zombie, to be reaped by %s", z.PID, display.Text(z.Comm), reaper(z.Reaper)))
	}
	for i := range t.report.PortsFreed {
		put(th.dim, "  freed "+display.Port(&t.report.PortsFreed[i]))
	}
	for i := range t.report.PortsBusy {
		put(th.warn, "  still busy: "+display.Port(&t.report.PortsBusy[i]))
	}
	for i := range t.report.LocksReleased {
		put(th.dim, "  released "+display.Lock(&t.report.LocksReleased[i]))
	}
	for i := range t.report.LocksHeld {
		put(th.warn, "  still held: "+display.Lock(&t.report.LocksHeld[i]))
	}
}

func reaper(p *api.Process) string {
	if p == nil {
		return "its parent"
	}
	return processName(p)
}
