//go:build linux

package daemon

import (
	"context"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/journal"
	"github.com/lineage-ebpf/lineage/daemon/recent"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Why a stream ends.
const (
	reasonOver     = "session_over"
	reasonUntil    = "until"
	reasonStopping = "stopping"
	reasonGone     = "gone" // its reader; nobody is told
)

// span is the part of the past that a stream begins with, and where it ends.
type span struct {
	asked        bool // from or since is given: the history is looked at
	since, until time.Time
	boot         string               // of session, if only the history has it
	readable     map[bootSession]bool // what the caller may read of the history
}

type bootSession struct {
	boot string
	id   tracer.SessionID
}

// replay sends what the history has from number from of this boot on (0: from
// its first), or since a time, of earlier boots too; of those the numbers are
// left out, because they begin again with each boot. It gives the number that
// the ring goes on with, or why the stream is at its end.
func (st *stream) replay(ctx context.Context, from uint64) (next uint64, reason string) {
	if !st.asked {
		return from, ""
	}
	boot := st.bootID
	if !st.since.IsZero() {
		boot = ""
	}
	p := pastReader{stream: st, boot: boot, from: from, next: from}
	for {
		more, reason := p.gather(ctx)
		if reason != "" {
			return p.next, reason
		}
		if !more {
			break
		}
		select {
		case <-st.stopping:
			return p.next, reasonStopping
		default:
		}
		if !st.flush() || ctx.Err() != nil {
			return p.next, reasonGone
		}
	}
	began := st.ring.Began()
	if !p.any { // what fell off the ring is told with what it still has
		st.older(ctx, st.started, from, began)
	}
	return max(p.next, began), "" // the numbers between are nobody's: another daemon began
}

// pastReader is where a stream is in the history.
type pastReader struct {
	*stream
	boot       string // "": each
	after      int64  // the last block that was read
	from, next uint64
	any        bool // something was found
}

// gather encodes a block, one stream at a time: readers of the past leave the
// processor to those of the present, and to the registry.
func (p *pastReader) gather(ctx context.Context) (more bool, reason string) {
	p.replaying.Lock()
	defer p.replaying.Unlock()
	b, err := p.recorder.Journal().Next(ctx, p.after, p.since, p.boot, p.from)
	if err != nil {
		p.log.Error().Err(err).Msg("history not read") // the status says why
	}
	if err != nil || b == nil {
		return false, ""
	}
	p.after = b.ID
	then := document.Fixed(b.Zero)
	for i := range b.Records {
		x := &b.Records[i]
		at := then.Wall(x.Time)
		if b.Boot == p.bootID && x.Seq < p.next || at == nil || at.Before(p.since) {
			continue
		}
		if !p.until.IsZero() && at.After(p.until) {
			return true, reasonUntil
		}
		if !p.any {
			p.any = true
			p.older(ctx, *at, p.from, x.Seq)
		}
		if b.Boot == p.bootID {
			p.next = x.Seq + 1
		}
		if p.sendPast(ctx, b, then, x); p.over {
			return true, reasonOver
		}
	}
	return true, ""
}

// older says that what was asked for begins before what is held.
func (st *stream) older(ctx context.Context, first time.Time, from, seq uint64) {
	held, err := st.recorder.Journal().First(ctx)
	if err != nil || held.IsZero() {
		held = first
	}
	lost := api.Event{Head: api.Head{Kind: "event"}, Type: "lost", Where: "history"}
	switch {
	case !st.since.IsZero() && st.since.Before(held):
		lost.Time = &held // nothing is held that is older
	case st.since.IsZero() && from < seq:
		lost.LostFrom, lost.LostTo = api.U64(from), api.U64(seq-1)
		if from >= st.ring.Began() { // numbers of one daemon are events
			lost.Count = seq - from
		}
	default:
		return
	}
	st.encode(lost)
}

// sendPast encodes an event of the history that the reader asked for and may
// see.
func (st *stream) sendPast(ctx context.Context, b *journal.Block, then document.Clock, x *journal.Record) {
	r := recent.Event{Seq: x.Seq, Event: x.Event}
	if r.Type == 0 || int(r.Type) >= len(document.EventNames) || r.Type != tracer.EventLost && !st.mayReadPast(ctx, bootSession{b.Boot, r.Session}) {
		return
	}
	if st.session != 0 && r.Type == tracer.EventSession && r.Session == st.session && r.State == tracer.StateEmpty {
		st.over = true
	}
	if !st.wants(r.Type) {
		return
	}
	ev := document.Event(then, r.Seq, &r.Event, st.caller)
	if b.Boot != st.bootID {
		ev.Seq, ev.BootID = 0, b.Boot
	}
	st.encode(ev)
}

// mayReadPast asks memory, else the history, once for each session.
func (st *stream) mayReadPast(ctx context.Context, key bootSession) bool {
	if key.id == 0 {
		return false
	}
	may, known := st.readable[key]
	if known {
		return may
	}
	a, err := st.aboutPast(key)
	var row *journal.Session
	if err == nil && a == nil {
		row, err = st.recorder.Journal().Session(ctx, key.boot, key.id)
	}
	switch {
	case err != nil:
		return false
	case a != nil:
		may = st.mayRead(a)
	case row == nil: // nobody's: for those who may read everything
		may = st.session == 0 && access.Decide(st.caller, access.Read, access.Scope{UID: ^uint32(0)}).Allow && st.caller.UID != ^uint32(0)
	default:
		may = access.Decide(st.caller, access.Read, st.archive.Scope(ctx, row)).Allow && st.selects(ctx, row)
	}
	if len(st.readable) >= maxVisible {
		clear(st.readable)
	}
	st.readable[key] = may
	return may
}

// aboutPast asks the registry for a session of this boot, nil if it has none.
func (st *stream) aboutPast(key bootSession) (a *recent.About, err error) {
	if key.boot != st.bootID || st.boot != "" {
		return nil, nil
	}
	err = st.registry.Read(func(v registry.View) {
		if x := v.Session(key.id); x != nil {
			a = st.ring.Of(v, x)
		}
	})
	return a, err
}

// selects reports whether a session of the history is the one that was asked
// for, or nested in it.
func (st *stream) selects(ctx context.Context, row *journal.Session) bool {
	boot := st.boot
	if boot == "" {
		boot = st.bootID
	}
	for range registry.MaxDepth {
		if st.session == 0 || row.Boot == boot && row.ID == st.session {
			return true
		}
		if row.Parent == 0 {
			return false
		}
		up, err := st.recorder.Journal().Session(ctx, row.Boot, row.Parent)
		if err != nil || up == nil {
			return false
		}
		row = up
	}
	return false
}
