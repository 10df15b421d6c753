//go:build linux

package stream

import (
	"context"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// reader is one reader of the events. It runs in its request's goroutine.
type reader struct {
	e       *Events
	out     *Sender
	caller  access.Caller
	session tracer.SessionID // 0: all that the caller may read
	about   *history.About   // the session's; nil: it has ended
	types   []api.EventType  // empty: all
	visible map[tracer.SessionID]bool
	over    bool // the session's end was sent
	span
}

// maxVisible is for how many sessions a reader remembers whether it may see them.
const maxVisible = 64

// run sends until the reader, the session or the daemon goes.
func (r *reader) run(ctx context.Context, from uint64) {
	from, reason := r.replay(ctx, from)
	if reason != "" {
		if reason != reasonGone {
			r.finish(reason)
		}
		return
	}
	var until <-chan time.Time
	if !r.until.IsZero() {
		timer := time.NewTimer(time.Until(r.until))
		defer timer.Stop()
		until = timer.C
	}
	beat := time.Tick(r.e.o.Heartbeat)
	for {
		next, wake, reason := r.gather(from)
		if reason != "" {
			r.finish(reason)
			return
		}
		if !r.out.Flush() {
			return
		}
		if from = next; wake == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-r.e.o.Stopping:
			r.finish(ReasonStopping)
			return
		case <-until:
			r.finish(ReasonUntil)
			return
		case <-beat:
			r.out.Encode(api.Event{Head: api.Head{Kind: "heartbeat"},
				TimeNS: api.U64(r.e.o.Clock.Boottime())})
		case <-wake:
		}
	}
}

// gather takes a turn, and encodes events from a number on until there is enough for a
// write. It returns the number to continue with, and a channel that is closed when
// there is more, nil if there is already; or why the stream ends.
func (r *reader) gather(from uint64) (next uint64, wake <-chan struct{}, reason string) {
	buf := <-r.e.turns
	var n int
	var first uint64
	defer func() {
		clear(buf[:n])
		r.e.turns <- buf
	}()
	// Read this first: what was added before the session ended is read below.
	over := r.session != 0 && (r.about == nil || r.about.Over.Load())
	n, first, wake = r.e.o.Ring.Read(from, buf)
	if first > from {
		r.e.o.Tally.Missed.Add(first - from)
		r.out.Encode(api.Event{Head: api.Head{Kind: "event"}, Type: api.EventLost, Where: "reader",
			LostFrom: api.U64(from), LostTo: api.U64(first - 1), Count: first - from})
	}
	for i := range buf[:n] {
		switch at := r.e.o.Clock.Wall(buf[i].Time); {
		case !r.until.IsZero() && at != nil && at.After(r.until):
			return 0, nil, ReasonUntil
		case at == nil || !at.Before(r.since):
			r.send(&buf[i])
		}
		if r.out.Full() {
			return first + uint64(i) + 1, nil, r.atEnd(false)
		}
	}
	if n == len(buf) {
		wake = nil
	}
	return first + uint64(n), wake, r.atEnd(over && n == 0)
}

func (r *reader) atEnd(over bool) string {
	if over || r.over {
		return ReasonOver
	}
	return ""
}

func (r *reader) send(ev *history.RecentEvent) {
	if r.gets(&ev.Event, func() bool { return r.mayRead(ev.About) }) {
		r.out.Append(r.e.encoded.line(r.e.o.Clock.Clock, ev, r.caller))
	}
}

// gets reports whether the reader asked for an event and may read its session, and notes the end of
// the session that it follows.
func (r *reader) gets(ev *tracer.Event, may func() bool) bool {
	if ev.Type == 0 || int(ev.Type) >= len(document.EventNames) || ev.Type != tracer.EventLost && !may() {
		return false
	}
	if r.session != 0 && ev.Type == tracer.EventSession && ev.Session == r.session && ev.State == tracer.StateEmpty {
		r.over = true
	}
	return len(r.types) == 0 || slices.Contains(r.types, document.EventNames[ev.Type])
}

// mayRead decides once for each session, while it is remembered.
func (r *reader) mayRead(a *history.About) bool {
	if a == nil {
		return false
	}
	may, known := r.visible[a.Scope.Chain[0]]
	if !known {
		may = access.Decide(r.caller, access.Read,
			a.Scope).Allow && (r.session == 0 || a.Scope.Within(r.session))
		if len(r.visible) >= maxVisible {
			clear(r.visible)
		}
		r.visible[a.Scope.Chain[0]] = may
	}
	return may
}

// present lists the sessions and the processes of the snapshot, in the registry's
// goroutine.
func (r *reader) present(v registry.View) (all []any) {
	var processes []any
	for _, x := range v.Sorted() {
		if x.Closed() || r.session != 0 && !v.Within(x.ID(), r.session) ||
			!access.Decide(r.caller, access.Read, v.Scope(x)).Allow {
			continue
		}
		all = append(all, &api.Event{
			Head: api.Head{Kind: "event"}, Type: document.EventNames[tracer.EventSession],
			Session: x.ID().String(), State: x.State(), Subject: new(v.Document(x, r.caller)),
		})
		for _, b := range v.Graph().Tree(false, x.ID()) {
			if n, ok := v.Graph().Node(b.ID); ok && n.State != lineage.Unknown {
				p := v.Encoder().Process(&n, r.caller)
				p.Head = api.Head{Kind: "process"}
				processes = append(processes, &p)
			}
		}
	}
	return append(all, processes...)
}

func (r *reader) finish(reason string) {
	r.out.End(api.Event{Head: api.Head{Kind: "end"}, Reason: reason})
}
