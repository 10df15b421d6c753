package html

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Limits of the lists of a receipt.
const (
	maxNotes     = 5000
	receiptBytes = 2 << 20 // of all commands
)

// receipt is how the session ended, as the template shows it. With no report it is nearly empty.
type receipt struct {
	display.Receipt
	Class   string // of style.css
	Figures []fact
	Facts   []fact
	More    []string // what is not shown
}

type fact struct{ Name, Value string }

// Tone is the class of style.css of a row or note.
func (v *receipt) Tone(t display.Tone) string {
	return [...]string{display.Plain: "", display.Faint: "", display.Warn: "open",
		display.Bad: "bad"}[t]
}

func (p *Page) receipt(r *api.Report, s scale, peak int) *receipt {
	v := &receipt{Class: "open", Receipt: display.Receipt{Verdict: "no verdict",
		Sum: "this session has no receipt"}}
	if r == nil {
		return v
	}
	asked := *r
	asked.Delegated = slices.Clone(r.Delegated)
	for i := range asked.Delegated {
		if b := &asked.Delegated[i]; b.Asked != nil {
			b.Asked = new(*b.Asked)
			b.Asked.Argv = p.members.hidden(b.Asked.Argv)
		}
	}
	v.Receipt = display.Receipted(&asked, display.Names{Command: p.members.shown})
	limit := share(receiptBytes, len(v.Rows), func(i int) string { return v.Rows[i].Command })
	for i := range v.Rows {
		v.Rows[i].Command = clip(v.Rows[i].Command, limit)
	}
	if n := len(v.Notes) - maxNotes; n > 0 {
		v.Notes, v.More = v.Notes[:maxNotes], []string{fmt.Sprintf("%d more lines of the receipt are not shown.", n)}
	}
	for i := range v.Notes {
		v.Notes[i].Text = clip(v.Notes[i].Text, 4*maxName)
	}
	v.Class = cmp.Or(class(r.Verdict), v.Class)
	doc := *p.session
	doc.State, doc.EndReason = cmp.Or(r.State, doc.State), cmp.Or(r.EndReason, doc.EndReason)
	v.figures(r, &doc, peak, lasted(s.from, s.until))
	by := "no request"
	if r.EndedBy != nil {
		by = display.Caller(r.EndedBy)
	}
	v.say("Session", strings.TrimSpace(doc.ID+" "+display.Text(doc.Name)))
	v.say("Host", display.Text(p.host))
	v.say("Began", stamp(doc.Started))
	v.say("Ended", stamp(cmp.Or(r.Ended, doc.Ended)))
	v.say("State", display.State(&doc))
	v.say("Reason", display.Text(doc.EndReason))
	v.say("Asked for by", by)
	v.say("Confirmed empty", map[bool]string{true: "yes, by the kernel", false: "no"}[r.ConfirmedEmpty])
	v.say("The kernel counted", counted(r.Counted))
	v.say("Audit log before it", display.Text(r.AuditHead))
	v.session(&doc)
	v.say("Also ended", display.Text(strings.Join(r.Also, ", ")))
	return v
}

// counted is what the verdict is based on.
func counted(c *api.Counted) string {
	if c == nil {
		return ""
	}
	s := fmt.Sprintf("%s in it, %d live, %d dying",
		display.Count(int(c.Births), "birth"), c.Live, c.Dying)
	if c.Unentered > 0 {
		s += fmt.Sprintf(", %d without room", c.Unentered)
	}
	if c.Corrected {
		s += ", corrected"
	}
	return s
}

// say adds a fact that is known.
func (v *receipt) say(name, value string) {
	if value != "" {
		v.Facts = append(v.Facts, fact{name, clip(value, maxCommand)})
	}
}

func (v *receipt) figures(r *api.Report, doc *api.Session, peak int, took string) {
	figure := func(name string, n int) { v.Figures = append(v.Figures, fact{name, fmt.Sprint(n)}) }
	figure("processes", started(r, doc))
	figure("exited before the end", r.Exited)
	figure("needed SIGKILL", r.Killed)
	figure("still alive", r.Left)
	figure("at most at once", max(doc.Peak, peak))
	if doc.Started != nil && doc.Ended != nil {
		took = display.Duration(doc.Ended.Sub(*doc.Started))
	}
	v.Figures = append(v.Figures, fact{"lasted", took})
}

// started is how many members the session ever had.
func started(r *api.Report, doc *api.Session) int {
	return max(r.Started, doc.Forks+1+doc.Joined, len(r.Processes))
}

// session adds what is known of the session besides its end.
func (v *receipt) session(doc *api.Session) {
	v.say("User", fmt.Sprintf("uid %d", doc.UID))
	if doc.Level > 0 {
		v.say("Guarantee", fmt.Sprintf("level %d, policy mode %s", doc.Level, display.Text(doc.Mode)))
	}
	v.say("CPU time", display.CPU(doc.CPUSeconds))
	v.say("Inside session", display.Text(doc.Parent))
	v.say("Policy rule", display.Text(doc.Rule))
	v.say("Kept", display.Kept(doc))
	v.say("Work of session", display.Text(doc.DelegatedBy))
	v.say("Container", display.Container(doc.Container))
	v.say("Degraded", display.Text(strings.Join(doc.Degraded, "; ")))
}

func (p *Page) began() string {
	root := p.session.Root
	if root == nil {
		return ""
	}
	argv, comm, cut := display.Began(root)
	return p.members.shown(&api.Process{Argv: argv, Comm: comm, ArgvTruncated: cut})
}

// shown is what a process runs, with secrets hidden; without its arguments if that is not possible.
func (m *members) shown(p *api.Process) string {
	return display.Command(api.Unwrapped(m.hidden(p.Argv)), p.Comm, p.ArgvTruncated, maxCommand)
}

func (m *members) hidden(argv []string) []string {
	if m.redact == nil {
		return nil
	}
	return m.redact(argv)
}
