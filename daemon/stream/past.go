//go:build linux

package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Why a stream ends.
const (
	ReasonOver     = "session_over"
	ReasonUntil    = "until"
	ReasonStopping = "stopping"
	reasonGone     = "gone" // the reader's connection; it gets no reason
)

// span is the part of the past that a stream begins with, and where it ends.
type span struct {
	asked        bool // from or since is given: read the history
	since, until time.Time
	boot         string               // of session, if only the history has it
	readable     map[bootSession]bool // what the caller may read of the history
}

type bootSession struct {
	boot string
	id   tracer.SessionID
}

// replay sends what the history has from number from of this boot on (0: from its first), or since a time, of earlier
// boots too, without their numbers. It returns the number at which the ring continues, or why the stream ends.
func (r *reader) replay(ctx context.Context, from uint64) (next uint64, reason string) {
	if !r.asked {
		return from, ""
	}
	boot := r.e.o.BootID
	if !r.since.IsZero() {
		boot = ""
	}
	p := pastReader{r: r, boot: boot, from: from, next: from}
	for {
		more, reason := p.gather(ctx)
		if reason != "" {
			return p.next, reason
		}
		if !more {
			break
		}
		select {
		case <-r.e.o.Stopping:
			return p.next, ReasonStopping
		default:
		}
		if !r.out.Flush() || ctx.Err() != nil {
			return p.next, reasonGone
		}
	}
	began := r.e.o.Ring.Began()
	if !p.any { // events that fell off the ring are reported with what it still has
		r.older(ctx, r.e.o.Started, from, began)
	}
	return max(p.next, began), "" // another daemon began: the numbers in between are unused
}

// pastReader is where a stream is in the history.
type pastReader struct {
	r          *reader
	boot       string           // "": all
	block      *history.Block   // the last one that was read; nil: none
	rest       []history.Record // of it
	from, next uint64
	any        bool // something was found
}

// read reads the next block when the last one is used up; false: the history ends.
func (p *pastReader) read(ctx context.Context) bool {
	if len(p.rest) > 0 {
		return true
	}
	after := int64(0)
	if p.block != nil {
		after = p.block.ID
	}
	b, err := p.r.e.o.Archive.Journal().Next(ctx, after, p.r.since, p.boot, p.from)
	if err != nil {
		p.r.e.o.Log.Error().Err(err).Msg("history not read") // the status says why
	}
	if err != nil || b == nil {
		return false
	}
	p.block, p.rest = b, b.Records
	return true
}

// gather encodes enough for a write, one stream at a time: readers of the past leave the
// processor to readers of the present, and to the registry.
func (p *pastReader) gather(ctx context.Context) (more bool, reason string) {
	p.r.e.replaying.Lock()
	defer p.r.e.replaying.Unlock()
	if !p.read(ctx) {
		return false, ""
	}
	b, then := p.block, document.Fixed(p.block.Zero)
	for len(p.rest) > 0 && !p.r.out.Full() {
		x := &p.rest[0]
		p.rest = p.rest[1:]
		at := then.Wall(x.Time)
		if b.Boot == p.r.e.o.BootID && x.Seq < p.next || at == nil || at.Before(p.r.since) {
			continue
		}
		if !p.r.until.IsZero() && at.After(p.r.until) {
			return true, ReasonUntil
		}
		if !p.any {
			p.any = true
			p.r.older(ctx, *at, p.from, x.Seq)
		}
		if b.Boot == p.r.e.o.BootID {
			p.next = x.Seq + 1
		}
		if p.r.sendPast(ctx, b, then, x); p.r.over {
			return true, ReasonOver
		}
	}
	return true, ""
}

// older reports that the request begins before the oldest held event.
func (r *reader) older(ctx context.Context, first time.Time, from, seq uint64) {
	held, err := r.e.o.Archive.Journal().First(ctx)
	if err != nil || held.IsZero() {
		held = first
	}
	lost := api.Event{Head: api.Head{Kind: "event"}, Type: api.EventLost, Where: "history"}
	switch {
	case !r.since.IsZero() && r.since.Before(held):
		lost.Time = &held // nothing older is held
	case r.since.IsZero() && from < seq:
		lost.LostFrom, lost.LostTo = api.U64(from), api.U64(seq-1)
		if from >= r.e.o.Ring.Began() { // then each number is an event of this daemon
			lost.Count = seq - from
		}
	default:
		return
	}
	r.out.Encode(lost)
}

// sendPast encodes an event of the history if the reader asked for it and may see it.
func (r *reader) sendPast(ctx context.Context, b *history.Block, then document.Clock, x *history.Record) {
	ev := &x.Event
	if !r.gets(ev, func() bool { return r.mayReadPast(ctx, bootSession{b.Boot, ev.Session}) }) {
		return
	}
	d := document.Event(then, x.Seq, ev, r.caller)
	if b.Boot != r.e.o.BootID {
		d.Seq, d.BootID = 0, b.Boot
	}
	if subject := new(api.Session); len(x.Subject) > 0 && json.Unmarshal(x.Subject, subject) == nil {
		d.Subject = document.ReadableSession(subject, r.caller)
	}
	r.out.Append(d.MarshalJSON())
}

// mayReadPast decides from memory, else from the history, once for each session.
func (r *reader) mayReadPast(ctx context.Context, key bootSession) bool {
	if key.id == 0 {
		return false
	}
	may, known := r.readable[key]
	if known {
		return may
	}
	a, err := r.aboutPast(key)
	var row *history.Session
	if err == nil && a == nil {
		row, err = r.e.o.Archive.Journal().Session(ctx, key.boot, key.id)
	}
	switch {
	case err != nil:
		return false
	case a != nil:
		may = r.mayRead(a)
	case row == nil: // of no known session: for callers that may read everything
		may = r.session == 0 && access.Decide(r.caller, access.Read, access.Scope{UID: ^uint32(0)}).Allow &&
			r.caller.UID != ^uint32(0)
	default:
		may = access.Decide(r.caller, access.Read, r.e.o.Archive.Scope(ctx, row)).Allow && r.selects(ctx, row)
	}
	if len(r.readable) >= maxVisible {
		clear(r.readable)
	}
	r.readable[key] = may
	return may
}

// aboutPast asks the registry for a session of this boot, nil if it has none.
func (r *reader) aboutPast(key bootSession) (*history.About, error) {
	if key.boot != r.e.o.BootID || r.boot != "" {
		return nil, nil
	}
	return registry.Ask(r.e.o.Registry, func(v registry.View) *history.About {
		if x := v.Session(key.id); x != nil {
			return r.e.o.Ring.Of(v, x)
		}
		return nil
	})
}

// selects reports whether a session of the history is the requested one, or nested in
// it.
func (r *reader) selects(ctx context.Context, row *history.Session) bool {
	boot := cmp.Or(r.boot, r.e.o.BootID)
	if r.session == 0 || row.Boot != boot {
		return r.session == 0
	}
	line, _ := r.e.o.Archive.Line(ctx, row) // what is known of it
	return slices.Contains(line, r.session)
}
