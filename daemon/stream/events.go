//go:build linux

package stream

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

type EventsOptions struct {
	Lines
	Ring    *history.Ring
	Archive *history.Archive
	BootID  string
	Version string
	Started time.Time
}

// Events streams the events of the daemon to any number of readers.
type Events struct {
	o          EventsOptions
	encoded    encodedEvents
	turns      turns
	presenting sync.Mutex // held while a reader gets the present processes
	replaying  sync.Mutex // held while one gets a block of the history
	packed     chan struct{}
}

// maxPacked is how many readers get compressed lines at once: each takes a megabyte.
const maxPacked = 8

func NewEvents(o EventsOptions) *Events {
	return &Events{o: o, turns: newTurns(), packed: make(chan struct{}, maxPacked)}
}

// Now as a first number means: only new events.
const Now = math.MaxUint64

type EventsRequest struct {
	Session      string          // "": all that the caller may read
	Types        []api.EventType // empty: all
	From         uint64          // the first number, or Now
	Since, Until time.Time
	Snapshot     bool // send the present sessions and processes first
	Gzip         bool // the reader can unpack it
}

// Serve streams events until the reader, the session or the daemon goes.
func (e *Events) Serve(ctx context.Context, w http.ResponseWriter, c access.Caller, q EventsRequest) error {
	rd := &reader{
		e: e, out: e.o.To(w, c), caller: c, types: q.Types, visible: make(map[tracer.SessionID]bool),
		span: span{asked: q.From != Now || !q.Since.IsZero(), since: q.Since, until: q.Until,
			readable: make(map[bootSession]bool)},
	}
	from := q.From
	if from == Now && rd.asked {
		from = 0 // from the oldest
	}
	if err := rd.find(ctx, q.Session); err != nil {
		return err
	}
	e.o.Ring.Readers.Add(1)
	defer e.o.Ring.Readers.Add(-1)
	from, present, err := rd.join(from, q.Snapshot)
	if err != nil {
		return err
	}
	if q.Gzip {
		select {
		case e.packed <- struct{}{}:
			defer func() { <-e.packed }()
			rd.out.pack()
		default:
		}
	}
	rd.out.Begin()
	if q.Snapshot && !rd.snapshot(present) {
		return nil
	}
	if rd.out.Flush() {
		rd.run(ctx, from)
	}
	return nil
}

// find decides what the reader may read.
func (r *reader) find(ctx context.Context, session string) error {
	if session == "" {
		if d := access.Decide(r.caller, access.Read, r.caller.Scope()); !d.Allow {
			return r.e.o.Access.Refuse(r.caller, access.Read, "events", d)
		}
		return nil
	}
	err := r.e.o.Find.Session(session, r.caller, access.Read,
		func(v registry.View, x *registry.Session) { r.session = x.ID() })
	if api.IsNotFound(err) {
		var p *history.Past
		if p, err = r.e.o.Archive.Find(ctx, session, r.caller, access.Read, err); err == nil {
			r.session, r.boot = p.ID, p.Boot
		}
	}
	return err
}

// join returns the present sessions and processes, if the reader wants them, and the
// number that follows them.
func (r *reader) join(from uint64, snapshot bool) (next uint64, present []any, err error) {
	if snapshot {
		r.e.presenting.Lock() // the registry has to serve others in between
		defer r.e.presenting.Unlock()
	}
	err = r.e.o.Registry.ReadFor(r.caller, func(v registry.View) {
		if snapshot {
			present = r.present(v)
		}
		if x := v.Session(r.session); x != nil {
			r.about = r.e.o.Ring.Of(v, x)
		}
		next = min(from, r.e.o.Ring.End())
	})
	return next, present, err
}

// snapshot sends the present sessions and processes; false: the reader is gone.
func (r *reader) snapshot(present []any) bool {
	r.out.Encode(api.Event{Head: api.NewHead("recording"), BootID: r.e.o.BootID,
		Version: r.e.o.Version, Started: &r.e.o.Started})
	for _, doc := range present {
		if r.out.Encode(doc); r.out.Full() && !r.out.Flush() {
			return false
		}
	}
	return true
}
