package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// labelColumns is how wide the names of facts are.
const labelColumns = 9

// pane is the details that are being written.
type pane struct {
	m       *model
	columns int
	lines   []string
}

// details is what is known of the selected row.
func (m *model) details(columns int) []string {
	p := &pane{m: m, columns: columns}
	r := m.view.Selected()
	if r == nil {
		return nil
	}
	switch r.Kind {
	case picture.SessionRow:
		p.session(r.Session)
	case picture.GroupRow:
		p.group(r)
	default:
		p.process(r)
	}
	return p.lines
}

func (p *pane) title(paint paint, s string) {
	l := p.m.line(p.columns)
	l.put(p.m.theme.strong, " ")
	l.put(paint, s)
	p.lines = append(p.lines, l.full())
}

// text writes sanitised text, in as many lines as it takes.
func (p *pane) text(paint paint, indent, s string) {
	for i, part := range wrap(s, p.columns-len(indent)-1) {
		if i > 0 {
			part = strings.TrimLeft(part, " ")
		}
		l := p.m.line(p.columns)
		l.put(paint, " "+indent+part)
		p.lines = append(p.lines, l.full())
	}
}

// fact writes a name and its value, if there is one.
func (p *pane) fact(name, value string) {
	if value == "" {
		return
	}
	for i, part := range wrap(display.Text(value), p.columns-labelColumns-2) {
		if i > 0 {
			name, part = "", strings.TrimLeft(part, " ")
		}
		l := p.m.line(p.columns)
		l.put(p.m.theme.dim, fmt.Sprintf(" %-*s ", labelColumns, name))
		l.put(paint{}, part)
		p.lines = append(p.lines, l.full())
	}
}

func (p *pane) blank() { p.lines = append(p.lines, p.m.line(p.columns).full()) }

func (p *pane) process(r *picture.Row) {
	m, pr := p.m, r.Process
	var why *api.Why
	if m.why.ref == pr.Ref && m.why.why != nil {
		why = m.why.why
		pr = merged(pr, &why.Process)
	}
	look := m.look(r)
	p.title(look.paint, fmt.Sprintf("%s%s %s", look.glyph, look.letter, processName(pr)))
	p.fact("state", m.stateText(pr, look))
	if s := m.view.Picture.Session(pr.Session); s != nil {
		p.fact("session", sessionName(s.Session)+", "+string(cmp.Or(s.Session.State, "not known")))
	}
	p.chain(pr, why)
	p.fact("parent", m.parentText(pr, why))
	p.fact("command", display.Command(pr.Argv, pr.Comm, pr.ArgvTruncated, display.CommandBytes))
	p.fact("exe", pr.Exe)
	p.fact("cwd", pr.Cwd)
	if pr.UID != nil {
		p.fact("uid", fmt.Sprint(*pr.UID))
	}
	p.fact("cgroup", pr.Cgroup)
	p.fact("container", pr.Container)
	p.holds(why)
	if pr.State == api.StateLive {
		p.fact("CPU, RSS", display.CPU(pr.CPUSeconds)+", "+display.Size(pr.RSSBytes))
	}
	p.fact("started", m.clock(m.born(pr))+", "+display.Age(m.present().Sub(m.born(pr)))+" ago")
	if pr.NSPID != 0 && pr.NSPID != pr.PID {
		p.fact("inside", fmt.Sprintf("PID %d of its namespace", pr.NSPID))
	}
	p.fact("identity", pr.Ref.String())
	if s := m.view.Picture.Session(pr.Session); s != nil {
		p.policy(s.Session)
	}
	if m.why.ref == pr.Ref && m.why.err != nil {
		p.blank()
		p.text(m.theme.warn, "", "! "+display.Text(m.why.err.Error()))
	}
}

// merged is a process of the picture with what only an answer about it says.
func merged(p, answer *api.Process) *api.Process {
	all := *p
	all.Exe, all.Cgroup = cmp.Or(p.Exe, answer.Exe), cmp.Or(p.Cgroup, answer.Cgroup)
	all.Cwd, all.Container = answer.Cwd, answer.Container
	if p.State == api.StateLive {
		all.Task = cmp.Or(answer.Task, p.Task)
	}
	if all.NSPID == 0 {
		all.NSPID = answer.NSPID
	}
	return &all
}

func (m *model) stateText(p *api.Process, look look) string {
	switch {
	case look.letter == "E":
		return "ended by us: " + howEnded(p)
	case p.State == api.StateExited:
		return "exited: " + howEnded(p)
	case p.State == api.StateZombie:
		return "zombie: " + howEnded(p) + ", waits to be reaped"
	case p.Task == "":
		return "live"
	}
	return "live, " + display.Text(p.Task)
}

// chain says why the process belongs to its session: every step to the root,
// dead ancestors too.
func (p *pane) chain(pr *api.Process, why *api.Why) {
	t := p.m.theme
	p.text(t.strong, "", "why it belongs there")
	if why == nil || len(why.Edges) == 0 {
		p.knownChain(pr)
		return
	}
	for i := range why.Edges {
		e := &why.Edges[i]
		how := ""
		if e.Evidence.Confidence == "weak" {
			how = ", weak"
		}
		if e.Kind == "root" || e.Creator == nil {
			text := "the root of the session"
			if e.Kind != "root" {
				text = e.Kind + ", its creator is older than the tracing"
			}
			p.text(paint{}, " ", display.Text(fmt.Sprintf("%s: %s; evidence %s%s", processName(&e.Child), text, source(e.Evidence), how)))
			continue
		}
		state := "alive"
		if !e.Creator.Alive {
			state = "exited"
			if e.Creator.Exited != nil {
				state += " " + display.Age(p.m.present().Sub(*e.Creator.Exited)) + " ago"
			}
		}
		line := t.up + " " + display.Text(fmt.Sprintf("%s by %d %s (%s); evidence %s%s", e.Kind, e.Creator.PID, cmp.Or(e.Creator.Comm, "?"), state, source(e.Evidence), how))
		p.text(paint{}, " ", line)
		for _, moved := range e.Reparented {
			if moved.To != nil {
				p.text(t.moved, "   ", t.glyphs.moved+" reparented to "+p.m.named(*moved.To))
			}
		}
	}
}

// knownChain is the chain as far as the picture has it.
func (p *pane) knownChain(pr *api.Process) {
	m := p.m
	for range 64 {
		how := ""
		if e := pr.Evidence; e != nil {
			how = "; evidence " + source(*e)
			if e.Confidence == "weak" {
				how += ", weak"
			}
		}
		var c *picture.Row
		if pr.Creator != nil {
			c = m.view.Picture.Process(*pr.Creator)
		}
		if pr.Evidence != nil && pr.Evidence.Kind == "root" || c == nil {
			p.text(paint{}, " ", display.Text(processName(pr)+": top of the session"+how))
			return
		}
		state := "alive"
		if c.Process.State == api.StateExited {
			state = howEnded(c.Process)
		}
		p.text(paint{}, " ", m.theme.up+" "+display.Text(fmt.Sprintf("created by %s (%s)%s", processName(c.Process), state, how)))
		pr = c.Process
	}
	p.text(m.theme.dim, " ", m.theme.dots)
}

func source(e api.Evidence) string {
	s := cmp.Or(e.Kind, "none")
	if e.Source != "" {
		s += " (" + e.Source + ")"
	}
	return display.Text(s)
}

// parentText names the present parent. The answer to why has it from the kernel;
// a picture may be a second older, where the kernel tells no reparentings.
func (m *model) parentText(p *api.Process, why *api.Why) string {
	if why != nil && why.Process.Ref == p.Ref {
		p = &why.Process
	}
	if p.Parent == nil || p.State == api.StateExited {
		return ""
	}
	s := m.named(*p.Parent)
	if why != nil && why.Parent != nil && why.Parent.Ref == *p.Parent {
		s = processName(why.Parent)
	}
	if moved(p) {
		s += ", now (it was reparented)"
	}
	return s
}

func (p *pane) holds(why *api.Why) {
	if why == nil || why.Holds == nil {
		return
	}
	for i := range why.Holds.Ports {
		p.fact("port", display.Port(&why.Holds.Ports[i]))
	}
	for i := range why.Holds.Locks {
		p.fact("lock", display.Lock(&why.Holds.Locks[i]))
	}
	for _, s := range why.Holds.Unknown {
		p.fact("not known", s)
	}
}

// policy is what will happen to a session.
func (p *pane) policy(s *api.Session) {
	mode := cmp.Or(s.Mode, "not known")
	if mode == "observe" {
		mode += ": only reported"
	}
	p.fact("policy", fmt.Sprintf("%s, grace %v", mode, time.Duration(s.GraceSeconds*float64(time.Second))))
	if s.Deadline != nil {
		p.fact("deadline", p.m.clock(*s.Deadline)+", "+p.m.until(*s.Deadline))
	}
	p.fact("ended by", s.EndReason)
	for _, d := range s.Degraded {
		p.fact("degraded", d)
	}
}

func (p *pane) session(s *api.Session) {
	m := p.m
	p.title(m.theme.session, sessionName(s))
	p.fact("state", string(s.State))
	p.fact("uid", fmt.Sprint(s.UID))
	if s.Root != nil {
		p.fact("root", fmt.Sprintf("%d %s", s.Root.PID, display.Command(s.Root.Argv, s.Root.Comm, s.Root.ArgvTruncated, display.CommandBytes)))
	}
	p.fact("evidence", s.Evidence)
	if s.Owner != nil {
		p.fact("owner", m.named(*s.Owner))
	}
	p.fact("live", fmt.Sprintf("%d, at most %d, %d forks", s.Live, s.Peak, s.Forks))
	if s.Orphans+s.Leftovers+s.Zombies > 0 {
		p.fact("", fmt.Sprintf("%s, %s, %s", count(s.Orphans, "orphan", "orphans"), count(s.Leftovers, "leftover", "leftovers"), count(s.Zombies, "zombie", "zombies")))
	}
	p.fact("CPU, RSS", display.CPU(s.CPUSeconds)+", "+display.Size(s.RSSBytes))
	if len(s.Ports) > 0 {
		p.fact("ports", strings.Trim(fmt.Sprint(s.Ports), "[]"))
	}
	if s.Started != nil {
		p.fact("started", m.clock(*s.Started)+", "+display.Age(m.present().Sub(*s.Started))+" ago")
	}
	if s.Ended != nil {
		p.fact("ended", m.clock(*s.Ended))
	}
	p.fact("", display.Kept(s))
	p.fact("nested in", s.Parent)
	p.policy(s)
	p.blank()
	hint := "T shows its timeline"
	if s.State != api.StateEnded && !m.readOnly() {
		hint = "x ends it and all that it started; " + hint
	}
	p.text(m.theme.dim, "", hint)
}

func (p *pane) group(r *picture.Row) {
	m := p.m
	first := r.First().Process
	look := m.look(r.First())
	p.title(look.paint, fmt.Sprintf("%s%s %s %s%d", look.glyph, look.letter, display.Text(first.Comm), m.theme.times, r.Count()))
	p.fact("state", howEnded(first)+", all of them")
	p.fact("command", display.Command(first.Argv, first.Comm, first.ArgvTruncated, display.CommandBytes))
	if first.Creator != nil {
		p.fact("creator", m.named(*first.Creator))
	}
	p.blank()
	p.text(m.theme.dim, "", m.theme.keys.Replace("→")+" shows each of them")
}

// clock shows a time of today as hour, minute and second, else with its date.
func (m *model) clock(t time.Time) string {
	now := m.present()
	t = t.In(now.Location())
	if y, mo, d := now.Date(); t.Year() != y || t.Month() != mo || t.Day() != d {
		return t.Format(time.DateTime)
	}
	return t.Format(time.TimeOnly)
}
