package model

import (
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/past"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// session is the session of that id; the source is asked for it when it is first needed.
func (m *Model) session(id string) *session {
	if s := m.sessions[id]; s != nil {
		return s
	}
	s := &session{info: &record.SessionInfo{Session: api.Session{ID: id}}}
	if id == "" {
		return s
	}
	m.sessions[id] = s // first: a session may name itself through others
	d, err := m.from.Session(id)
	s.unsure, s.info.Unknown = err != nil, d == nil
	if d != nil {
		s.info.Session = bounded(d)
		if d.Root != nil && d.Root.StartNS != 0 {
			m.known(d.Root)
		}
	}
	s.info.Span = m.sessionSpan(s)
	return s
}

// sessionSpan is the place of a session in a trace: that of its parent session, or of the
// session whose work it holds, else a trace of its own.
func (m *Model) sessionSpan(s *session) record.Span {
	d := &s.info.Session
	sp := record.Span{Trace: record.Trace{TraceID: record.SessionTrace(m.host.ID, m.boot, d.ID), SpanID: record.SessionSpan(m.host.ID, m.boot, d.ID)}}
	above := d.Parent
	if above == "" {
		above = d.BrokeredBy
	}
	if above == "" || above == d.ID {
		return sp
	}
	outer := m.session(above)
	s.unsure = s.unsure || outer.unsure
	sp.TraceID, sp.Parent = outer.info.Span.TraceID, outer.info.Span.SpanID
	if root := d.Root; root != nil && d.Parent != "" {
		if p := m.processes[root.Ref]; p != nil && p.Image.Creator != nil && p.Trace == nil {
			sp.Parent = p.Image.Creator.Span
		}
	}
	return sp
}

// span is where a process's image is in a trace: below its creator's image, if that is in
// the same trace, else below what the agent claims, else below the session.
func (m *Model) span(p *process) record.Span {
	s := m.session(p.Session).info
	sp := record.Span{Trace: record.Trace{TraceID: s.Span.TraceID, SpanID: p.Image.Span}, Parent: s.Span.SpanID}
	root := s.Root != nil && s.Root.Ref == p.Image.Ref
	if t := p.Trace; t != nil {
		var claimed record.Trace
		if claimed.TraceID.UnmarshalText([]byte(t.TraceID)) == nil && claimed.SpanID.UnmarshalText([]byte(t.SpanID)) == nil {
			sp.TraceID, sp.Parent = claimed.TraceID, claimed.SpanID
			root = t.From == p.Image.Ref
		}
	}
	if c := p.Image.Creator; c != nil && !root {
		sp.Parent = c.Span
	}
	return sp
}

// state applies a session's event.
func (m *Model) state(e *api.Event) []*record.Record {
	old := m.session(e.Session)
	info := *old.info
	past.Advance(&info.Session, e)
	if len(info.Marks) < record.MaxMarks {
		info.Marks = append(slices.Clip(info.Marks), markOf(e))
	}
	old.info = &info
	if e.State == api.StateEnded {
		return m.over(e, old)
	}
	r := m.record(record.Session, e)
	r.Session = &info
	return []*record.Record{r}
}

// over applies the end of a session.
func (m *Model) over(e *api.Event, s *session) []*record.Record {
	r := m.record(record.End, e)
	if s.info.Ended == nil {
		s.info.Ended = new(r.Time)
	}
	all := m.opening(s, e)
	r.Session = s.info
	for _, p := range m.members(e.Session) {
		if p.Exited.IsZero() { // its exit was lost
			p.Exited = r.Time
			all = m.closing(all, r, m.end(p, e), e)
			m.bury(p)
		}
	}
	r.Members = m.Members(e.Session)
	s.tree = true // later events are about processes that are known, or were forgotten
	if m.ended = append(m.ended, e.Session); len(m.ended) > maxEnded {
		delete(m.sessions, m.ended[0])
		m.ended = m.ended[1:]
	}
	return append(all, r)
}

// members are the processes of a session in the order of their starts.
func (m *Model) members(id string) (all []*process) {
	for _, p := range m.processes {
		if p.Session == id {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *process) int { return past.Compare(a.Image.Ref, b.Image.Ref) })
	return all
}

// Members are the processes of a session that are remembered.
func (m *Model) Members(id string) map[api.Ref]*record.Process {
	all := make(map[api.Ref]*record.Process)
	for _, p := range m.members(id) {
		all[p.Image.Ref] = new(p.Process)
	}
	return all
}

// Session is what is known of a session.
func (m *Model) Session(id string) *record.SessionInfo { return m.session(id).info }

// Live is the sessions that have not ended, as far as events report.
func (m *Model) Live() []string {
	ids := make([]string, 0, len(m.sessions))
	for id, s := range m.sessions {
		if s.info.State != api.StateEnded {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Reboot ends what was alive when the host was restarted.
func (m *Model) Reboot() (all []*record.Record) {
	for _, id := range m.Live() {
		e := &api.Event{Head: api.Head{Kind: "event"}, Type: api.EventSession, Session: id, State: api.StateEnded, Reason: "reboot",
			TimeNS: m.last.TimeNS, Time: m.last.Time}
		all = append(all, m.Apply(e)...)
	}
	return all
}

// Orphans is a record of what a session left behind or handed to others.
func (m *Model) Orphans(id string, all []api.Orphan, now time.Time) *record.Record {
	words := []any{"orphans", m.host.ID, m.boot, id}
	for i := range all {
		all[i].Argv = m.from.Redact(all[i].Argv)
		if b := all[i].Brokered; b != nil && b.Asked != nil {
			b.Asked.Argv = m.from.Redact(b.Asked.Argv)
		}
		words = append(words, all[i].Ref)
	}
	return &record.Record{ID: record.DerivedID(words...), Kind: record.Orphans, Host: m.host, Boot: m.boot, Time: now,
		Session: m.session(id).info, Orphans: all, Members: m.Members(id)}
}

// Busy is a record of busy processes that an ended call has left.
func (m *Model) Busy(c *api.CallLeft, now time.Time) *record.Record {
	for i := range c.Commands {
		c.Commands[i].Argv = m.from.Redact(c.Commands[i].Argv)
	}
	return &record.Record{ID: record.DerivedID("busy", m.host.ID, m.boot, c.Session, c.Calls[0].Agent, c.Calls[0].ID, now.UnixNano()), Kind: record.Busy,
		Host: m.host, Boot: m.boot, Time: now, Session: m.session(c.Session).info, Call: c}
}

// Status is a record of a changed status of the daemon.
func (m *Model) Status(before, status *api.Status, now time.Time) *record.Record {
	return &record.Record{ID: record.DerivedID("status", m.host.ID, m.boot, now.UnixNano()), Kind: record.Status, Host: m.host, Boot: m.boot,
		Time: now, Status: status, Before: before}
}
