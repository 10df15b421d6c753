package picture

import (
	"cmp"

	"github.com/lineage-ebpf/lineage/api"
)

type Kind uint8

// The kinds of rows.
const (
	topRow     Kind = iota // above everything, never shown
	SessionRow             // a session, above its processes
	ProcessRow             // a process, above what it created
)

// Key identifies a row across pictures.
type Key struct {
	Process api.Ref
	Session string
}

type Row struct {
	Kind    Kind
	Process *api.Process // of a process
	Session *api.Session // of a session
	Ports   []int        // of a process, that it listens on

	up, prev, next *Row
	first, last    *Row // the rows below it, in start order
	folded, match  bool
	gone           bool
	known          bool    // of a session: known itself, not only from its processes
	start          api.U64 // orders siblings, with pid and the session's id
	pid            int32
	size           int32 // processes at and below it
	live           int32 // … that have not exited, and the held row
	counted        bool  // it counts as one of live
	hits           int32 // rows at and below it that the filter wants
	rank           int32 // of a session: orders siblings before all else
	order          int32 // of a session: its place as the reader sorted them, 0: none
	usage          usage
	creator        api.Ref // the one that it waits for, see Picture.waiting
}

func (r *Row) exited() bool { return r.Kind == ProcessRow && r.Process.State == api.StateExited }

func (r *Row) Up() *Row {
	if r.up == nil || r.up.Kind == topRow {
		return nil
	}
	return r.up
}

// Hits is how many rows at and below it the filter wants.
func (r *Row) Hits() int { return int(r.hits) }

func (r *Row) Folded() bool { return r.folded && r.first != nil }

func (r *Row) Next() *Row { return r.next }

func (r *Row) Key() Key {
	if r.Kind == SessionRow {
		return Key{Session: r.Session.ID}
	}
	return Key{Process: r.Process.Ref}
}

func (r *Row) SessionID() string {
	if r.Kind == SessionRow {
		return r.Session.ID
	}
	return r.Process.Session
}

func (r *Row) compare(o *Row) int {
	c := cmp.Or(cmp.Compare(r.rank, o.rank), cmp.Compare(r.start, o.start), cmp.Compare(r.pid, o.pid))
	if c == 0 && r.Kind == SessionRow && o.Kind == SessionRow {
		c = cmp.Compare(r.Session.ID, o.Session.ID)
	}
	return cmp.Or(c, cmp.Compare(r.Kind, o.Kind))
}

// link puts r, with all below it, among the rows below up. New rows belong at the
// bottom, so the search for the place starts there.
func (r *Row) link(up *Row) {
	after := up.last
	for after != nil && after.compare(r) > 0 {
		after = after.prev
	}
	r.up, r.prev = up, after
	if after == nil {
		r.next, up.first = up.first, r
	} else {
		r.next, after.next = after.next, r
	}
	if r.next == nil {
		up.last = r
	} else {
		r.next.prev = r
	}
	up.add(r.size, r.live, r.hits)
}

// unlink removes r, with all below it.
func (r *Row) unlink() {
	up := r.up
	if r.prev == nil {
		up.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		up.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	up.add(-r.size, -r.live, -r.hits)
	r.up, r.prev, r.next = nil, nil, nil
}

// add adds to the counts of r and all rows above it.
func (r *Row) add(size, live, hits int32) {
	for ; r != nil; r = r.up {
		r.size += size
		r.live += live
		r.hits += hits
	}
}

func (r *Row) below(o *Row) bool {
	for ; r != nil; r = r.up {
		if r == o {
			return true
		}
	}
	return false
}
