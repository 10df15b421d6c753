package perfetto

import (
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// member is a process whose PID is not free yet.
type member struct {
	ref    api.Ref
	track  uint64
	parent uint64 // the parent of its own track
	depth  int
	image  string // of the open slice; "": no slice is open
	last   uint64 // ns of its newest event: slices must not overlap
	dead   bool
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
		if old.ref == p.Ref {
			return old
		}
		t.forget(old, at) // its end was missed
	}
	m := &member{ref: p.Ref, track: trackOf(p.Ref), parent: t.id("session")}
	if p.Creator != nil {
		if creator := t.known(*p.Creator); creator != nil {
			m.parent, m.depth = creator.track, creator.depth+1
			if m.depth > maxDepth {
				m.parent, m.depth = creator.parent, creator.depth
			}
		}
	}
	t.members[p.PID] = m
	t.live++
	t.name(m, p)
	return m
}

// member is a process that should be known already; else it joins.
func (t *Trace) member(at uint64, p *api.Process) *member {
	m := t.known(p.Ref)
	if m == nil {
		m = t.join(at, p)
		t.begin(m, max(min(at, uint64(p.StartNS)), 1), t.image(p), "image", 0)
	}
	return m
}

// inOrder are the members by PID.
func (t *Trace) inOrder() []*member {
	return slices.SortedFunc(maps.Values(t.members), func(a, b *member) int { return a.ref.PID - b.ref.PID })
}

// name names the track of a process after its program.
func (t *Trace) name(m *member, p *api.Process) {
	t.describe(&track{uuid: m.track, parent: m.parent, name: t.label(p), children: childrenChronological, rank: rankProcess})
}

// begin opens a slice, if none is open.
func (t *Trace) begin(m *member, at uint64, image, category string, flow uint64, notes ...note) {
	if m.image != "" || m.dead {
		return
	}
	m.image = image
	t.emit(&happening{at: m.clock(at), kind: sliceBegin, track: m.track, category: category, name: image, ends: flow, notes: notes})
}

// end closes the open slice.
func (t *Trace) end(m *member, at uint64, notes ...note) {
	if m.image == "" {
		return
	}
	m.image = ""
	t.emit(&happening{at: m.clock(at), kind: sliceEnd, track: m.track, notes: notes})
}

// forget removes a member whose PID is free.
func (t *Trace) forget(m *member, at uint64) {
	if !m.dead {
		t.end(m, at, note{name: "end", text: "not seen"})
		t.live--
	}
	delete(t.members, m.ref.PID)
}

// about is what the viewer shows about an image.
func (t *Trace) about(p *api.Process) []note {
	notes := []note{{name: "pid", n: int64(p.PID)}}
	if p.NSPID != 0 {
		notes = append(notes, note{name: "pid inside", n: int64(p.NSPID)})
	}
	if t.redact != nil && len(p.Argv) > 0 {
		notes = said(notes, "command", display.Command(t.redact(p.Argv), p.Comm, p.ArgvTruncated, maxNote))
	}
	notes = said(notes, "exe", p.Exe)
	if p.UID != nil {
		notes = append(notes, note{name: "uid", n: int64(*p.UID)})
	}
	if p.Session != t.session.ID {
		notes = said(notes, "session", p.Session)
	}
	if e := p.Evidence; e != nil {
		notes = said(notes, "evidence", e.Kind)
	}
	return claims(notes, p)
}
