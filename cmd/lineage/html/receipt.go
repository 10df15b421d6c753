package html

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// Limits of the lists of a receipt.
const (
	maxHeld      = 2000
	receiptBytes = 2 << 20 // of all commands
)

// receipt is how the session ended, as the template shows it. With no report it is empty.
type receipt struct {
	Verdict  string // clean, left, unknown or open: a class of style.css, too
	Says     string
	Why      string
	Figures  []fact
	Facts    []fact
	Outcomes []outcome
	Zombies  []string
	Held     []held
	Handed   []string
	Notes    []string
}

// fact is a name and a value.
type fact struct{ Name, Value string }

// held is what became of something that the session held; Class is a class of style.css.
type held struct{ Class, Text string }

// outcome is how processes with one command ended, in one way.
type outcome struct {
	Command  string
	End      string
	Class    string // of style.css
	Leftover bool
	PIDs     []int
}

// Few reports whether the PIDs are shown instead of their number.
func (o outcome) Few() bool { return len(o.PIDs) < fewest }

// verdicts say what a verdict means.
var verdicts = map[api.Verdict]string{
	api.VerdictClean: "No process is left.", api.VerdictLeft: "The end did not reach all of them.", api.VerdictUnknown: "It is not known whether a process is left.",
}

// receipt describes a report; redact hides secrets in arguments, nil leaves them out.
func (p *Page) receipt(r *api.Report, s scale) receipt {
	if r == nil {
		return receipt{Verdict: "open", Says: "This session has no receipt."}
	}
	v := receipt{Verdict: string(r.Verdict), Says: verdicts[r.Verdict], Why: display.Text(r.VerdictWhy)}
	if v.Says == "" {
		v.Verdict, v.Says = "open", "The session has not ended."
	}
	if r.Verdict == api.VerdictClean && r.ConfirmedEmpty {
		v.Says += " The kernel counts no live member, and a walk over its tasks found none."
	}
	took := display.Duration(time.Duration(r.DurationMS * float64(time.Millisecond)))
	doc := *p.session
	doc.State, doc.EndReason = cmp.Or(r.State, doc.State), cmp.Or(r.EndReason, doc.EndReason)
	if r.Verdict == api.VerdictLeft && doc.EndReason == "" { // run --on-exit report
		v.Says = "No end was asked for: the session continues with what was left over."
	}
	ended, members := display.Ended(r)
	v.figures(r, &doc, p.load.peak, lasted(s.from, s.until))
	asked := "no request"
	if by := r.EndedBy; by != nil {
		asked = display.Caller(by)
	}
	v.say("Session", strings.TrimSpace(doc.ID+" "+display.Text(doc.Name)))
	v.say("Host", display.Text(p.host))
	v.say("Began", stamp(doc.Started))
	v.say("Ended", stamp(cmp.Or(r.Ended, doc.Ended)))
	v.say("State", display.State(&doc))
	v.say("Reason", display.Text(doc.EndReason))
	v.say("Asked for by", asked)
	v.say("End took", took)
	v.say("Ended by it", fmt.Sprintf("%d of %s", ended, display.Count(members, "process", "processes")))
	v.say("Confirmed empty", map[bool]string{true: "yes, by the kernel", false: "no"}[r.ConfirmedEmpty])
	v.say("The kernel counted", counted(r.Counted))
	v.say("Audit log before it", display.Text(r.AuditHead))
	v.session(&doc)
	v.say("Also ended", display.Text(strings.Join(r.Also, ", ")))
	v.say("Would have ended it", display.Text(strings.Join(r.WouldEnd, ", ")))
	v.outcomes(r, p.members.redact)
	v.rest(r, p.members.redact)
	return v
}

// counted is what the verdict is based on.
func counted(c *api.Counted) string {
	if c == nil {
		return ""
	}
	s := fmt.Sprintf("%s in it, %d live, %d dying", display.Count(int(c.Births), "birth", "births"), c.Live, c.Dying)
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
	v.say("Work of session", display.Text(doc.BrokeredBy))
	v.say("Container", display.Container(doc.Container))
	v.say("Degraded", display.Text(strings.Join(doc.Degraded, "; ")))
}

// began is the command that the session began with.
func (p *Page) began() string {
	root := p.session.Root
	if root == nil {
		return ""
	}
	if m := p.members.get(root.Ref); m != nil {
		if len(m.earlier) > 0 {
			return m.earlier[0]
		}
		return m.command
	}
	argv, comm, cut := display.Began(root)
	return shown(p.members.redact, argv, comm, cut)
}

// shown is a command, with its secrets hidden; without its arguments if that is not possible.
func shown(redact func([]string) []string, argv []string, comm string, cut bool) string {
	if redact == nil {
		argv = nil
	} else {
		argv = redact(argv)
	}
	return display.Command(api.Unwrapped(argv), comm, cut, maxCommand)
}

// outcomes lists how processes ended, those with the same command and end as one.
func (v *receipt) outcomes(r *api.Report, redact func([]string) []string) {
	at := make(map[outcomeKey]int)
	for i := range r.Processes {
		o := &r.Processes[i]
		command := display.InContainer(shown(redact, o.Argv, o.Comm, false), o.Container)
		key := outcomeKey{command, display.Outcome(o), o.Leftover}
		n, known := at[key]
		if !known {
			n = len(v.Outcomes)
			at[key] = n
			v.Outcomes = append(v.Outcomes, outcome{Command: command, End: key.end, Class: class(o.Outcome), Leftover: o.Leftover})
		}
		v.Outcomes[n].PIDs = append(v.Outcomes[n].PIDs, o.PID)
	}
	limit := share(receiptBytes, len(v.Outcomes), func(i int) string { return v.Outcomes[i].Command })
	for i := range v.Outcomes {
		v.Outcomes[i].Command = clip(v.Outcomes[i].Command, limit)
	}
	if r.Truncated {
		v.Notes = append(v.Notes, fmt.Sprintf("%d more processes ended; the daemon kept no details of them.", display.Unnamed(r)))
	}
}

type outcomeKey struct {
	command, end string
	leftover     bool
}

// rest adds what the session held, what it handed to others, and zombies.
func (v *receipt) rest(r *api.Report, redact func([]string) []string) {
	for i := range r.Zombies[:min(len(r.Zombies), maxHeld)] {
		z := &r.Zombies[i]
		text := fmt.Sprintf("%d %s waits to be reaped", z.PID, display.Text(z.Comm))
		if z.Reaper != nil {
			text += fmt.Sprintf(" by %d %s", z.Reaper.PID, shown(redact, z.Reaper.Argv, z.Reaper.Comm, z.Reaper.ArgvTruncated))
		}
		v.Zombies = append(v.Zombies, clip(text, maxName))
	}
	if n := len(r.Zombies) - len(v.Zombies); n > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d more zombies are not shown.", n))
	}
	after := display.AfterEnd(r, func(x *api.Process) string {
		return fmt.Sprintf("%d %s", x.PID, shown(redact, x.Argv, x.Comm, x.ArgvTruncated))
	})
	for _, h := range after[:min(len(after), maxHeld)] {
		class := ""
		if h.Bad() {
			class = "bad"
		}
		v.Held = append(v.Held, held{class, clip(h.String(), 4*maxName)})
	}
	if n := len(after) - len(v.Held); n > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d more ports and locks are not shown.", n))
	}
	for i := range r.Brokered[:min(len(r.Brokered), maxHeld)] {
		b := r.Brokered[i]
		if b.Asked != nil {
			asked := *b.Asked
			if redact == nil {
				asked.Argv = nil
			} else {
				asked.Argv = redact(asked.Argv)
			}
			b.Asked = &asked
		}
		v.Handed = append(v.Handed, clip(display.Brokered(&b, r.Session), 4*maxName))
	}
	if n := len(r.Brokered) - len(v.Handed); n > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d more pieces of handed-over work are not shown.", n))
	}
}
