//go:build linux

package registry

import (
	"fmt"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

// maxPlaces bounds the bytes of all requests that wait for names. Each counts as placeSize.
const (
	maxPlaces = 128 << 10
	placeSize = 512
)

// Place is that of an exclusive request in the queue for a name. Until the first one leaves, no other session of it may begin.
type Place struct {
	spec *tracer.SessionSpec
	left chan struct{} // closed by Leave
}

// Obstacle is the error for a session that cannot have its name now.
type Obstacle struct {
	Err   *api.Error
	Has   tracer.SessionID // which session has it; 0: work of one that had it, or requests that came before
	Until <-chan struct{}  // closed when the name may be free; nil: never
}

func (o *Obstacle) Error() string { return o.Err.Error() }
func (o *Obstacle) Unwrap() error { return o.Err }

// obstacle finds what a new session has to wait for, nil if its name is free. A request with a place needs more.
func (t Tx) obstacle(spec *tracer.SessionSpec, around []*Session) (found *Obstacle) {
	if spec.Name == "" || spec.Rule != 0 {
		return nil
	}
	busy := func(has tracer.SessionID, until <-chan struct{}, is string, args ...any) *Obstacle {
		is = fmt.Sprintf("session name %q is ", spec.Name) + fmt.Sprintf(is, args...)
		return &Obstacle{api.NewError(api.CodeBusyName, is, "choose another --name"), has, until}
	}
	mine := func(s *Session) bool { return s != nil && s.info.Name == spec.Name && s.info.UID == spec.UID }
	var ahead []*Place
	exclusive := false
	for _, p := range t.r.queue {
		if exclusive = p.spec.Root == spec.Root; exclusive {
			break
		}
		if p.spec.UID == spec.UID && p.spec.Name == spec.Name {
			ahead = append(ahead, p)
		}
	}
	var last *Session // of those that have ended
	for x := range t.Sessions() {
		of, until, is := t.r.sessions[x.info.For], x.over, x.info.State.String()
		if x.report != nil { // and it is not empty: nobody knows when it will be
			until, is = nil, fmt.Sprintf("%s: %s", x.report.Verdict, x.report.VerdictWhy)
		}
		switch {
		case x.closed:
			if mine(x) && (last == nil || x.emptyAt > last.emptyAt) {
				last = x
			}
		case x.info.Name == spec.Name && slices.Contains(around, x):
			return busy(0, nil, "in use by %v, which this one is nested in", x.info.ID)
		case mine(x):
			found = busy(x.info.ID, until, "in use by %v (%s)", x.info.ID, is)
		case exclusive && found == nil && mine(of):
			found = busy(0, until, "in use: session %v (%s) holds work of %v", x.info.ID, is, of.info.ID)
		}
	}
	if found == nil && exclusive && last != nil && last.report.Verdict != api.VerdictClean {
		found = busy(0, nil, "in use: it is not proven that %v is empty: %s; only a run without --exclusive can have it",
			last.info.ID, last.report.VerdictWhy)
	}
	if n := len(ahead); n > 0 {
		if found == nil {
			found = busy(0, nil, "reserved")
		}
		found.Has, found.Until = 0, ahead[n-1].left
		found.Err.Message += fmt.Sprintf("; %d wait for it", n)
	}
	return found
}

// Queue takes the last place for the name of a session.
func (t Tx) Queue(spec *tracer.SessionSpec) (*Place, error) {
	if !t.r.places.Take(spec.UID, placeSize) {
		return nil, api.Errorf(api.CodeTooMany, "too many requests of uid %d wait for names", spec.UID)
	}
	p := &Place{spec, make(chan struct{})}
	t.r.queue = append(t.r.queue, p)
	return p, nil
}

func (t Tx) Leave(p *Place) {
	t.r.queue = slices.DeleteFunc(t.r.queue, func(q *Place) bool { return q == p })
	t.r.places.Book(p.spec.UID, -placeSize)
	close(p.left)
}
