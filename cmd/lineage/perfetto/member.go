package perfetto

import (
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// member is a process whose PID is not free yet.
type member struct {
	ref   api.Ref
	track int
	image string // of the open slice; "": no slice is open
	last  uint64 // ns of its newest event: slices must not overlap
	dead  bool
}

// clock is at, but never before the member's newest event: events of two CPUs may be
// slightly out of order.
func (m *member) clock(at uint64) uint64 {
	m.last = max(m.last, at)
	return m.last
}

// known is the member with that PID and start, nil if it is not known.
func (t *Trace) known(ref api.Ref) *member {
	if m := t.members[ref.PID]; m != nil && m.ref == ref {
		return m
	}
	return nil
}

// join describes the track of a process that is new in this trace.
func (t *Trace) join(at uint64, p *api.Process) *member {
	if old := t.members[p.PID]; old != nil {
		t.forget(old, at) // its end was missed
	}
	t.tracks++
	m := &member{ref: p.Ref, track: gapTrack + t.tracks}
	t.describe(m.track, t.label(p))
	t.members[p.PID] = m
	t.live++
	return m
}

// member is a process that should be known already; else it joins.
func (t *Trace) member(at uint64, p *api.Process) *member {
	m := t.known(p.Ref)
	if m == nil {
		m = t.join(at, p)
		t.begin(m, max(min(at, uint64(p.StartNS)), 1), t.image(p), "image", nil)
	}
	return m
}

// inOrder are the members by PID.
func (t *Trace) inOrder() []*member {
	return slices.SortedFunc(maps.Values(t.members), func(a, b *member) int { return a.ref.PID - b.ref.PID })
}

// begin opens a slice, if none is open.
func (t *Trace) begin(m *member, at uint64, image, category string, about notes) {
	if m.image != "" || m.dead {
		return
	}
	m.image = image
	t.emit(event{Phase: sliceBegin, At: ns(m.clock(at)), Track: m.track, Category: category, Name: image, Notes: about})
}

// end closes the open slice.
func (t *Trace) end(m *member, at uint64, about notes) {
	if m.image == "" {
		return
	}
	t.emit(event{Phase: sliceEnd, At: ns(m.clock(at)), Track: m.track, Name: m.image, Notes: about})
	m.image = ""
}

// forget removes a member whose PID is free.
func (t *Trace) forget(m *member, at uint64) {
	if !m.dead {
		t.end(m, at, notes{"end": "not seen"})
		t.live--
	}
	delete(t.members, m.ref.PID)
}

// about is what the viewer shows about an image.
func (t *Trace) about(p *api.Process) notes {
	n := notes{"pid": p.PID}
	if p.NSPID != 0 {
		n["pid inside"] = p.NSPID
	}
	if t.redact != nil && len(p.Argv) > 0 {
		n.say("command", display.Command(t.redact(p.Argv), p.Comm, p.ArgvTruncated, maxNote))
	}
	n.say("exe", p.Exe)
	if p.Creator != nil {
		n["creator"] = p.Creator.PID
	}
	if p.UID != nil {
		n["uid"] = *p.UID
	}
	if p.Session != t.session.ID {
		n.say("session", p.Session)
	}
	if e := p.Evidence; e != nil {
		n.say("evidence", e.Kind)
	}
	n.claims(p)
	return n
}
