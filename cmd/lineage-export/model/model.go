// Package model knows sessions and processes as the events report them, and makes records
// of events.
package model

import (
	"cmp"
	"maps"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// Source answers what events do not report. Nil and empty: not known.
type Source interface {
	// Session gives an error if the question must be asked again.
	Session(id string) (*api.Session, error)
	// Tree is the processes of a session, with their dead ancestors.
	Tree(session string) []api.Node
	Redact(argv []string) []string
}

// Model is the sessions and processes of one boot, as they were at the last event. It is
// not safe for concurrent use.
type Model struct {
	host *record.Host
	boot string
	from Source

	sessions  map[string]*session
	processes map[api.Ref]*process
	dead      []api.Ref // in the order of their exits, those that are still in processes
	ended     []string  // sessions, in the order of their ends, those that are still in sessions
	last      api.Event // its times

	held  *held
	marks int // of the processes
}

type session struct {
	info   *record.SessionInfo // replaced when it changes: records have it
	tree   bool                // the tree was requested from Source
	unsure bool                // Source could not say what it or a session around it is
}

type process struct {
	record.Process
	used    bool // the image created a process, or has marks: its span is referenced
	opened  bool // the image had its Open
	marks   []api.Event
	dropped int
}

// New is an empty model.
func New(host *record.Host, boot string, from Source) *Model {
	return &Model{host: host, boot: boot, from: from, sessions: make(map[string]*session), processes: make(map[api.Ref]*process), held: new(held)}
}

// Boot is the boot that the model is of.
func (m *Model) Boot() string { return m.boot }

// Prime takes a line of a snapshot.
func (m *Model) Prime(e *api.Event) {
	switch {
	case e.Kind == "process" && e.Process != nil:
		m.known(e.Process)
	case e.Type == api.EventSession:
		m.session(e.Session)
	}
}

// Apply takes an event and gives the records of it, none if it has nothing new.
func (m *Model) Apply(e *api.Event) []*record.Record {
	if e.TimeNS != 0 {
		m.last.TimeNS, m.last.Time = e.TimeNS, e.Time
	}
	switch e.Type {
	case api.EventLost:
		for _, s := range m.sessions {
			s.tree = false // there may be processes that no event reported
		}
		return []*record.Record{m.record(record.Lost, e)}
	case api.EventSession:
		return m.state(e)
	case api.EventFork:
		return m.fork(e)
	case api.EventExec:
		return m.exec(e)
	case api.EventExit:
		return m.exit(e)
	case api.EventReparent, api.EventListen, api.EventUnlisten, api.EventStop, api.EventContinue, api.EventCrossing:
		return m.mark(e)
	case api.EventReaped, api.EventMark, api.EventTrace: // not asked for, see record.Types
	}
	return nil
}

// record is a record of an event.
func (m *Model) record(k record.Kind, e *api.Event) *record.Record {
	r := &record.Record{ID: record.EventID(m.host.ID, m.boot, k, e), Kind: k, Host: m.host, Boot: m.boot, Event: e}
	if e.Time != nil {
		r.Time = *e.Time
	} else if m.last.Time != nil {
		r.Time = *m.last.Time
	}
	return r
}

// about is a record of an event of a process.
func (m *Model) about(k record.Kind, e *api.Event, p *process) *record.Record {
	r := m.record(k, e)
	r.Session = m.session(p.Session).info
	p.Span = m.span(p)
	r.Process = new(p.Process)
	return r
}

func (m *Model) fork(e *api.Event) []*record.Record {
	d := e.Process
	if p := m.processes[d.Ref]; p != nil && p.Image.BeganNS != 0 { // its fork event was read before
		return []*record.Record{m.about(record.Fork, e, p)}
	}
	i := &record.Image{Ref: d.Ref, Forked: true, Comm: d.Comm, UID: d.UID, BeganNS: uint64(d.StartNS)}
	p := &process{Process: record.Process{Image: i, Session: d.Session, Parent: d.Parent, Evidence: d.Evidence, Container: d.Container, Trace: d.Trace, Calls: d.Calls}}
	p.Created = m.time(d.Started, e)
	i.Began = p.Created
	if c := m.creator(d); c != nil {
		copyProgram(i, c.Image)
		p.Cgroup, p.Container = c.Cgroup, cmp.Or(d.Container, c.Container)
		m.descend(p, c)
	}
	m.enter(p, d.Creator)
	return []*record.Record{m.about(record.Fork, e, p)}
}

// creator is the process that forked d.
func (m *Model) creator(d *api.Process) *process {
	if d.Creator == nil {
		return nil
	}
	if c := m.processes[*d.Creator]; c != nil {
		return c
	}
	m.look(d.Session)
	return m.processes[*d.Creator]
}

// descend notes whose program forked p.
func (m *Model) descend(p, c *process) {
	c.used = true
	switch {
	case c.Image.Depth > 1 && m.held.images.Load() > maxImages:
		c.Image = m.shortened(c.Image, 1)
	case c.Image.Depth >= 2*record.MaxAncestry:
		c.Image = m.shortened(c.Image, record.MaxAncestry)
	}
	p.Image.Creator, p.Image.Depth = c.Image, c.Image.Depth+1
	if p.Trace == nil {
		p.Trace = c.Trace
	}
	if p.Calls == nil || sameCalls(p.Calls, c.Calls) {
		p.Calls = c.Calls
	}
}

// enter adds a process.
func (m *Model) enter(p *process, creator *api.Ref) {
	i := p.Image
	i.CreatorRef = creator
	i.Span = record.ImageSpan(m.host.ID, m.boot, i.Ref, i.BeganNS)
	m.bound(i)
	if len(m.processes)-len(m.dead) < maxProcesses {
		if before := m.processes[i.Ref]; before != nil {
			m.unmark(before)
		}
		m.processes[i.Ref] = p
	}
}

func (m *Model) exec(e *api.Event) []*record.Record {
	d := e.Process
	d.Argv = m.from.Redact(d.Argv)
	p := m.find(d)
	ended := m.end(p, e)
	before := p.Image
	i := &record.Image{Ref: d.Ref, Comm: d.Comm, Exe: d.Exe, Argv: d.Argv, ArgvTruncated: d.ArgvTruncated, UID: d.UID,
		Began: m.time(nil, e), BeganNS: uint64(e.TimeNS), Creator: before.Creator, Depth: before.Depth}
	m.unmark(p)
	p.Image, p.used, p.opened = i, false, false
	m.enter(p, before.CreatorRef)
	r := m.about(record.Exec, e, p)
	r.Was = before
	if before.Forked && !ended.used && !ended.old() {
		return []*record.Record{r} // fork and exec are one program that was started
	}
	return append(m.closing(nil, r, ended, e), r)
}

func (m *Model) exit(e *api.Event) []*record.Record {
	d := e.Process
	p := m.find(d)
	if !p.Exited.IsZero() {
		return []*record.Record{m.about(record.Exit, e, p)}
	}
	p.Exited, p.ExitCode, p.Signal, p.Killer = m.time(d.Exited, e), d.ExitCode, d.Signal, d.Killer
	ended := m.end(p, e)
	r := m.about(record.Exit, e, p)
	m.bury(p)
	return append(m.closing(nil, r, ended, e), r)
}

// bury forgets those that died first.
func (m *Model) bury(p *process) {
	m.unmark(p)
	if m.processes[p.Image.Ref] != p {
		return
	}
	if m.dead = append(m.dead, p.Image.Ref); len(m.dead) > maxDead {
		for _, ref := range m.dead[:maxDead/2] {
			delete(m.processes, ref)
		}
		m.dead = append(m.dead[:0], m.dead[maxDead/2:]...)
	}
}

// mark notes what happened to a process other than start, exec and exit.
func (m *Model) mark(e *api.Event) []*record.Record {
	p := m.find(e.Process)
	if e.Type == api.EventReparent {
		p.Parent = e.To
	}
	m.note(p, e)
	p.used = true
	return []*record.Record{m.about(record.Kind(e.Type), e, p)}
}

// find is the process that an event is about, with what is claimed of it now. If it is
// not known, it is made from the source and the event.
func (m *Model) find(d *api.Process) *process {
	p := m.processes[d.Ref]
	if p == nil {
		m.look(d.Session)
		p = m.known(d)
	}
	if d.Trace != nil {
		p.Trace = d.Trace
	}
	if d.Calls != nil && !sameCalls(d.Calls, p.Calls) {
		p.Calls = d.Calls
	}
	return p
}

// look asks for the tree of a session, once until events are lost.
func (m *Model) look(id string) {
	s := m.session(id)
	if id == "" || s.tree {
		return
	}
	s.tree = true
	nodes := m.from.Tree(id)
	for i := range nodes {
		m.known(&nodes[i].Process)
	}
}

// known adds a process that began before its events were read. What it ran before is not
// known.
func (m *Model) known(d *api.Process) *process {
	if p := m.processes[d.Ref]; p != nil {
		return p
	}
	i := &record.Image{Ref: d.Ref, Comm: d.Comm, Exe: d.Exe, Argv: m.from.Redact(d.Argv), ArgvTruncated: d.ArgvTruncated, UID: d.UID}
	p := &process{Process: record.Process{Image: i, Session: d.Session, Parent: d.Parent, Evidence: d.Evidence,
		Cgroup: d.Cgroup, Container: d.Container, Trace: d.Trace, Calls: d.Calls}}
	p.Created = m.time(d.Started, &m.last)
	i.Began = p.Created
	if d.Creator != nil {
		if c := m.processes[*d.Creator]; c != nil {
			m.descend(p, c)
		}
	}
	m.enter(p, d.Creator)
	if d.State == api.StateExited && d.Exited != nil && m.last.Time != nil && d.Exited.Before(*m.last.Time) {
		p.Exited, p.ExitCode, p.Signal, p.Killer = *d.Exited, d.ExitCode, d.Signal, d.Killer
		m.bury(p) // an ancestor of others
	}
	return p
}

// time is when something happened, from the document, else from the event.
func (m *Model) time(t *time.Time, e *api.Event) time.Time {
	switch {
	case t != nil:
		return *t
	case e.Time != nil:
		return *e.Time
	case m.last.Time != nil:
		return *m.last.Time
	}
	return time.Time{}
}

// Ask changes the model's source: the daemon may have been restarted. What the old one could not
// say is asked again.
func (m *Model) Ask(from Source) {
	m.from = from
	maps.DeleteFunc(m.sessions, func(_ string, s *session) bool { return s.unsure })
}
