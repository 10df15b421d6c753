package panes

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// nameColumns is how wide the names of facts are.
const nameColumns = 9

// DetailAnswer is what the daemon reported about a process beyond the picture.
type DetailAnswer struct {
	Ref api.Ref
	Why *api.Why // nil: nothing yet
	Err error
}

// pane is the details while they are written.
type pane struct {
	Labels
	readOnly bool // nothing can be ended from here
	columns  int
	lines    []string
}

func DetailLines(l *Labels, r *picture.Row, a DetailAnswer, readOnly bool, columns int) []string {
	p := &pane{Labels: *l, columns: columns, readOnly: readOnly}
	switch {
	case r == nil:
	case r.Kind == picture.SessionRow:
		p.session(r)
	default:
		p.process(r, a)
	}
	return p.lines
}

func (p *pane) put(paint ink.Paint, s string) {
	p.lines = append(p.lines, p.Text(paint, " "+s, p.columns))
}

// text writes sanitised text, in as many lines as it takes.
func (p *pane) text(paint ink.Paint, indent, s string) {
	for i, part := range ink.Wrap(s, p.columns-len(indent)-2) {
		if i > 0 {
			part = strings.TrimLeft(part, " ")
		}
		p.put(paint, indent+part)
	}
}

// fact writes a name and its value, if there is one.
func (p *pane) fact(name, value string) { p.colored(ink.Paint{}, name, value) }

func (p *pane) colored(paint ink.Paint, name, value string) {
	if value == "" {
		return
	}
	for i, part := range ink.Wrap(display.Text(value), p.columns-nameColumns-3) {
		if i > 0 {
			name, part = "", strings.TrimLeft(part, " ")
		}
		l := p.Line(p.columns)
		l.Put(p.Dim, fmt.Sprintf(" %-*s ", nameColumns, name))
		l.Put(paint, part)
		p.lines = append(p.lines, l.Full())
	}
}

func (p *pane) blank() { p.lines = append(p.lines, p.Line(p.columns).Full()) }

func (p *pane) process(r *picture.Row, a DetailAnswer) {
	pr := r.Process
	why := a.Why
	if a.Ref != pr.Ref {
		why, a.Err = nil, nil
	}
	if why != nil {
		pr = merged(pr, &why.Process)
	}
	look := p.Process(pr)
	p.text(look.Paint, "", strings.TrimRight(look.String(), " ")+" "+p.state(pr))
	p.creators(pr, why)
	p.blank()
	p.fact("command", display.Command(pr.Argv, pr.Comm, pr.ArgvTruncated, display.CommandBytes))
	p.holds(r, why)
	if pr.State == api.StateLive {
		p.fact("CPU, RSS", fmt.Sprintf("%.1f%%, %s in all, %s", p.Picture.CPU(r),
			display.CPU(pr.CPUSeconds), display.Size(pr.RSSBytes)))
	}
	p.fact("started", p.Clock(p.Born(pr))+", "+display.Age(p.Now.Sub(p.Born(pr)))+" ago")
	s := p.Picture.Session(pr.Session)
	if s != nil {
		p.fact("session", SessionLabel(s.Session)+", "+string(cmp.Or(s.Session.State, "not known")))
	}
	p.fact("call", display.Calls(pr.Calls))
	p.fact("trace", strings.TrimPrefix(display.Trace(pr.Trace), "trace "))
	p.fact("parent", p.parent(pr, why))
	p.fact("exe", pr.Exe)
	p.fact("cwd", pr.Cwd)
	if pr.UID != nil {
		p.fact("user", fmt.Sprint(*pr.UID))
	}
	p.fact("cgroup", pr.Cgroup)
	p.fact("container", display.Container(pr.Container))
	if c := pr.Container; c != nil {
		p.fact("image", c.Image)
	}
	if pr.NSPID != 0 && pr.NSPID != pr.PID {
		p.fact("inside", fmt.Sprintf("PID %d of its namespace", pr.NSPID))
	}
	p.fact("identity", pr.Ref.String())
	if s != nil {
		p.policy(s.Session)
	}
	if a.Err != nil {
		p.blank()
		p.text(p.Warn, "", "! "+display.Error(a.Err))
	}
}

// merged is a process of the picture with the fields that only an answer has.
func merged(p, answer *api.Process) *api.Process {
	all := *p
	all.Exe, all.Cgroup = cmp.Or(p.Exe, answer.Exe), cmp.Or(p.Cgroup, answer.Cgroup)
	all.Cwd, all.Container = answer.Cwd, answer.Container
	if p.State == api.StateLive {
		all.Task = cmp.Or(answer.Task, p.Task)
	}
	all.NSPID = cmp.Or(all.NSPID, answer.NSPID)
	return &all
}

// taskNames say what the kernel's letters mean.
var taskNames = map[string]string{
	"R": "running", "S": "sleeping", "D": "in uninterruptible sleep",
	"T": "stopped", "t": "traced", "I": "idle",
}

func (p *pane) state(pr *api.Process) string {
	when := ""
	if pr.Exited != nil {
		when = ", " + display.Age(p.Now.Sub(*pr.Exited)) + " ago"
	}
	task := cmp.Or(taskNames[pr.Task], "live")
	if pr.Stopped != nil {
		task = display.Stopped(pr)
	}
	switch {
	case p.endedByUs(pr):
		return "ended by us: " + whoEnded(pr) + when
	case pr.State == api.StateExited:
		return "exited: " + whoEnded(pr) + when
	case pr.State == api.StateZombie:
		parent := "its parent"
		if pr.Parent != nil {
			parent += " " + p.Named(*pr.Parent)
		}
		return "zombie: " + whoEnded(pr) + ", " + parent + " has not reaped it"
	case pr.Orphan && pr.Creator != nil:
		return "orphan, " + task + ": its creator " + p.Named(*pr.Creator) + " is dead"
	case pr.Orphan:
		return "orphan, " + task
	case Moved(pr):
		return task + ", created by " + p.Named(*pr.Creator) + ", but its parent is another"
	}
	return task
}

// parent names the current parent. The answer to why has it from the kernel; the
// picture may be a second older if the kernel does not report reparenting.
func (p *pane) parent(pr *api.Process, why *api.Why) string {
	if why != nil && why.Process.Ref == pr.Ref {
		pr = &why.Process
	}
	if pr.Parent == nil || pr.State == api.StateExited {
		return ""
	}
	s := p.Named(*pr.Parent)
	if why != nil && why.Parent != nil && why.Parent.Ref == *pr.Parent {
		s = ProcessLabel(why.Parent)
	}
	if Moved(pr) {
		s += ", now (it was reparented)"
	}
	return s
}

func (p *pane) holds(r *picture.Row, why *api.Why) {
	if why == nil || why.Holds == nil {
		if len(r.Ports) > 0 {
			p.colored(p.Key, "port", strings.Trim(fmt.Sprint(r.Ports), "[]"))
		}
		return
	}
	for i := range why.Holds.Ports {
		p.colored(p.Key, "port", display.Port(&why.Holds.Ports[i]))
	}
	for i := range why.Holds.Locks {
		p.fact("lock", display.Lock(&why.Holds.Locks[i]))
	}
	for _, s := range why.Holds.Unknown {
		p.fact("not known", s)
	}
}

func (p *pane) policy(s *api.Session) {
	p.fact("policy", fmt.Sprintf("%s; grace %v", mode(s), time.Duration(s.GraceSeconds*float64(time.Second))))
	for _, d := range s.Degraded {
		p.colored(p.Warn, "degraded", d)
	}
}

func (p *pane) session(r *picture.Row) {
	s := r.Session
	if notes := p.SessionNotes(s); len(notes) > 0 {
		p.text(p.Look(r).Paint, "", p.Joined(notes))
	}
	if s.State != api.StateEnded {
		p.fact("processes", strings.Join(display.Living(s), ", "))
	}
	p.fact("peak", fmt.Sprintf("%d live, %s in all", s.Peak, display.Count(s.Forks, "fork", "forks")))
	if len(s.Ports) > 0 {
		p.colored(p.Key, "ports", strings.Trim(fmt.Sprint(s.Ports), "[]"))
	}
	p.fact("CPU, RSS", fmt.Sprintf("%.1f%%, %s in all, %s", p.Picture.CPU(r),
		display.CPU(s.CPUSeconds), display.Size(s.RSSBytes)))
	if used := display.Account(s.Limits, s.Account); used != "" {
		p.fact("cgroup", used)
	}
	if activity := p.Sparkline(p.Activity[s.ID],
		p.columns-nameColumns-4); s.State != api.StateEnded && activity != "" {
		p.colored(p.Key, "activity", cmp.Or(strings.TrimRight(activity, " "), "none"))
	}
	if s.Root != nil {
		argv, comm, truncated := display.Began(s.Root)
		p.fact("root", fmt.Sprintf("%d %s", s.Root.PID,
			display.Command(argv, comm, truncated, display.CommandBytes)))
	}
	if s.Started != nil {
		p.fact("started", p.Clock(*s.Started)+", "+display.Age(p.Now.Sub(*s.Started))+" ago")
	}
	if s.Ended != nil {
		p.fact("ended", p.Clock(*s.Ended))
	}
	if s.Deadline != nil {
		p.colored(p.Ended, "deadline", p.Clock(*s.Deadline)+", "+p.Until(s.Deadline))
	}
	if s.EndReason != "" && s.Ended == nil {
		p.fact("state", display.State(s))
	}
	p.fact("", display.Kept(s))
	p.blank()
	p.fact("user", fmt.Sprint(s.UID))
	p.fact("evidence", s.Evidence)
	if s.Owner != nil {
		p.fact("owner", p.Named(*s.Owner))
	}
	p.fact("nested in", s.Parent)
	p.policy(s)
	p.blank()
	hint := "T shows its timeline, v its events"
	if s.State != api.StateEnded && !p.readOnly {
		hint = "x ends it and all that it started; " + hint
	}
	p.text(p.Dim, "", hint)
}

func mode(s *api.Session) string {
	if s.Mode == "observe" {
		return s.Mode + ": automatic rules only log"
	}
	return cmp.Or(s.Mode, "not known")
}
