//go:build linux

package daemon

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/recent"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// stream is one reader of the events. It runs in its request's goroutine.
type stream struct {
	sender
	session tracer.SessionID // 0: whatever the caller may read
	about   *recent.About    // the session's; nil: it is over
	types   []string         // empty: all
	visible map[tracer.SessionID]bool
	over    bool // the session's end was sent
	span
}

// maxVisible is how many sessions a reader remembers to see or not.
const maxVisible = 64

// getEvents streams events from ?from= or from now on, with ?snapshot=1 the
// present processes first.
func (s *server) getEvents(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	q, err := query(r, "session", "type", "from", "since", "until", "snapshot")
	if err != nil {
		return err
	}
	st := &stream{sender: s.sender(w, c), visible: make(map[tracer.SessionID]bool)}
	if text := q.Get("type"); text != "" {
		st.types = strings.Split(text, ",")
		for _, t := range st.types {
			if t == "" || !slices.Contains(document.EventNames[:], t) {
				return unknown("type", t, document.EventNames[tracer.EventBirth:])
			}
		}
	}
	from := uint64(math.MaxUint64) // now
	if text := q.Get("from"); text != "" {
		if from, err = strconv.ParseUint(text, 10, 64); err != nil {
			return api.NewError(api.CodeBadRequest, fmt.Sprintf("invalid from %q: must be a sequence number", text), "")
		}
	}
	if st.since, st.until, err = between(q.Get("since"), q.Get("until"), time.Now()); err != nil {
		return err
	}
	st.asked, st.readable = from != math.MaxUint64 || !st.since.IsZero(), make(map[bootSession]bool)
	if from == math.MaxUint64 && st.asked {
		from = 0 // as far as it goes
	}
	snapshot := q.Get("snapshot")
	if snapshot != "" && snapshot != "0" && snapshot != "1" {
		return api.NewError(api.CodeBadRequest, fmt.Sprintf("invalid snapshot %q: must be 0 or 1", snapshot), "")
	}
	if word := q.Get("session"); word != "" {
		err := s.withSession(word, c, access.Read, func(v registry.View, x *registry.Session) { st.session = x.ID() })
		if unremembered(err) {
			var p *past
			if p, err = s.past(r.Context(), word, c, access.Read, err); err == nil {
				st.session, st.boot = p.ID, p.Boot
			}
		}
		if err != nil {
			return err
		}
	} else if d := access.Decide(c, access.Read, c.Scope()); !d.Allow {
		return s.access.Refuse(c, access.Read, "events", d)
	}
	s.ring.Readers.Add(1)
	defer s.ring.Readers.Add(-1)
	var present []api.Process
	if snapshot == "1" {
		s.presenting.Lock() // the registry has others to serve between two of them
	}
	err = s.read(c, func(v registry.View) {
		if snapshot == "1" {
			present = st.present(v)
		}
		if x := v.Session(st.session); x != nil {
			st.about = s.ring.Of(v, x)
		}
		from = min(from, s.ring.End()) // what follows the snapshot
	})
	if snapshot == "1" {
		s.presenting.Unlock()
	}
	if err != nil {
		return err
	}
	st.begin()
	if snapshot == "1" {
		st.encode(api.Event{Head: head("recording"), BootID: s.bootID, Version: s.version, Started: &s.started})
		for i := range present {
			if st.encode(&present[i]); st.full() && !st.flush() {
				return nil
			}
		}
	}
	if st.flush() {
		st.run(r.Context(), from)
	}
	return nil
}

// run sends until the reader, the session or the daemon goes.
func (st *stream) run(ctx context.Context, from uint64) {
	from, reason := st.replay(ctx, from)
	if reason != "" {
		if reason != reasonGone {
			st.finish(reason)
		}
		return
	}
	var until <-chan time.Time
	if !st.until.IsZero() {
		timer := time.NewTimer(time.Until(st.until))
		defer timer.Stop()
		until = timer.C
	}
	beat := time.NewTicker(st.limits.heartbeat)
	defer beat.Stop()
	for {
		next, wake, reason := st.gather(from)
		if reason != "" {
			st.finish(reason)
			return
		}
		if !st.flush() {
			return
		}
		if from = next; wake == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-st.stopping:
			st.finish(reasonStopping)
			return
		case <-until:
			st.finish(reasonUntil)
			return
		case <-beat.C:
			st.encode(heartbeat{"heartbeat", api.U64(st.clock.Boottime())})
		case <-wake:
		}
	}
}

// gather takes a turn, and encodes what there is from a number on until there
// is enough for a write. It gives the number to go on with, and what says that
// there is more, nil if there is already; or why the stream is at its end.
func (st *stream) gather(from uint64) (next uint64, wake <-chan struct{}, reason string) {
	buf := <-st.turns
	var n int
	var first uint64
	defer func() {
		clear(buf[:n])
		st.turns <- buf
	}()
	// Asked first: what was added before the session was over is read below.
	over := st.session != 0 && (st.about == nil || st.about.Over.Load())
	n, first, wake = st.ring.Read(from, buf)
	if first > from {
		st.tally.missed.Add(first - from)
		st.encode(api.Event{Head: api.Head{Kind: "event"}, Type: "lost", Where: "reader",
			LostFrom: api.U64(from), LostTo: api.U64(first - 1), Count: first - from})
	}
	for i := range buf[:n] {
		switch at := st.clock.Wall(buf[i].Time); {
		case !st.until.IsZero() && at != nil && at.After(st.until):
			return 0, nil, reasonUntil
		case at == nil || !at.Before(st.since):
			st.send(&buf[i])
		}
		if st.full() {
			return first + uint64(i) + 1, nil, st.atEnd(false)
		}
	}
	if n == len(buf) {
		wake = nil
	}
	return first + uint64(n), wake, st.atEnd(over && n == 0)
}

func (st *stream) atEnd(over bool) string {
	if over || st.over {
		return reasonOver
	}
	return ""
}

type heartbeat struct {
	Kind   string  `json:"kind"`
	TimeNS api.U64 `json:"time_ns"`
}

// send encodes an event that the reader asked for and may see.
func (st *stream) send(r *recent.Event) {
	if r.Type == 0 || int(r.Type) >= len(document.EventNames) || r.Type != tracer.EventLost && !st.mayRead(r.About) {
		return
	}
	if st.session != 0 && r.Type == tracer.EventSession && r.Session == st.session && r.State == tracer.StateEmpty {
		st.over = true
	}
	if !st.wants(r.Type) {
		return
	}
	text, err := st.line(r, st.caller)
	if err != nil {
		st.log.Error().Err(err).Msg("line not encoded")
		return
	}
	st.append(text)
}

// wants reports whether the reader asked for events of a type.
func (st *stream) wants(t tracer.EventType) bool {
	return len(st.types) == 0 || slices.Contains(st.types, document.EventNames[t])
}

// mayRead decides once for each session, as long as it remembers.
func (st *stream) mayRead(a *recent.About) bool {
	if a == nil {
		return false
	}
	may, known := st.visible[a.Scope.Chain[0]]
	if !known {
		may = access.Decide(st.caller, access.Read, a.Scope).Allow && (st.session == 0 || a.Scope.Within(st.session))
		if len(st.visible) >= maxVisible {
			clear(st.visible)
		}
		st.visible[a.Scope.Chain[0]] = may
	}
	return may
}

// present lists the processes of the snapshot, in the registry's goroutine.
func (st *stream) present(v registry.View) []api.Process {
	var all []api.Process
	for _, x := range v.Sorted() {
		if x.Closed() || st.session != 0 && !v.Within(x.ID(), st.session) ||
			!access.Decide(st.caller, access.Read, v.Scope(x)).Allow {
			continue
		}
		for _, b := range v.Graph().Tree(false, x.ID()) {
			if n, ok := v.Graph().Node(b.ID); ok && n.State != lineage.Unknown {
				p := v.Encoder().Process(&n, st.caller)
				p.Head = api.Head{Kind: "process"}
				all = append(all, p)
			}
		}
	}
	return all
}

// finish sends the last line.
func (st *stream) finish(reason string) {
	st.end(api.Event{Head: api.Head{Kind: "end"}, Reason: reason})
}
