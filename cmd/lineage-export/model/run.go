package model

import (
	"iter"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// ending is a run that ends.
type ending struct {
	record.Run
	process *process
	used    bool
}

// old: it has lived so long that it has an Open.
func (x *ending) old() bool { return x.Until.Sub(x.Image.Began) >= record.OpenAfter }

// end is the image of p up to an event.
func (m *Model) end(p *process, e *api.Event) *ending {
	return &ending{process: p, used: p.used, Run: record.Run{Image: p.Image, Session: p.Session, Span: m.span(p), Until: m.time(nil, e), Opened: p.opened,
		ExitCode: p.ExitCode, Signal: p.Signal, Killer: p.Killer, Marks: p.marks, Dropped: p.dropped, Created: p.Created}}
}

// closing adds an ended run to a record, and its Open to the records before if it lacks one: a long-lived run must
// have an Open with or without a tick in between, or its span would differ when sent again.
func (m *Model) closing(before []*record.Record, r *record.Record, x *ending, e *api.Event) []*record.Record {
	if !x.Opened && x.old() {
		before = append(before, m.open(x, e))
		x.Opened = true
	}
	r.Ended = append(r.Ended, &x.Run)
	return before
}

// open is the record of an image that lives long.
func (m *Model) open(x *ending, e *api.Event) *record.Record {
	run := record.Run{Image: x.Image, Session: x.Session, Span: x.Span, Until: x.Image.Began.Add(record.OpenAfter), Running: true, Created: x.Created}
	r := m.record(record.Open, e)
	r.ID, r.Event, r.Time = x.Span.SpanID.String(), nil, run.Until
	r.Session, r.Process, r.Ended = m.session(x.process.Session).info, new(x.process.Process), []*record.Run{&run}
	return r
}

// opening is the Open of a session, if it is old enough and had none.
func (m *Model) opening(s *session, e *api.Event) []*record.Record {
	if s.info.Opened || s.info.Started == nil || m.time(nil, e).Sub(*s.info.Started) < record.OpenAfter {
		return nil
	}
	info := *s.info
	info.Opened = true
	s.info = &info
	r := m.record(record.Open, e)
	r.ID, r.Event, r.Time, r.Session = info.Span.SpanID.String(), nil, info.Started.Add(record.OpenAfter), &info
	return []*record.Record{r}
}

// Tick is the Opens that are due at a time. They come one after the other: every process may have one.
func (m *Model) Tick(now time.Time) iter.Seq[*record.Record] {
	return func(yield func(*record.Record) bool) {
		e := &api.Event{Time: &now}
		for _, s := range m.sessions {
			if s.info.State == api.StateEnded {
				continue
			}
			for _, r := range m.opening(s, e) {
				if !yield(r) {
					return
				}
			}
		}
		for _, p := range m.processes {
			if p.Exited.IsZero() && !p.opened && !p.Image.Began.IsZero() && now.Sub(p.Image.Began) >= record.OpenAfter {
				p.opened = true
				if !yield(m.open(m.end(p, e), e)) {
					return
				}
			}
		}
	}
}
