//go:build linux

package daemon

import (
	"context"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/journal"
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
	r := st.owner.ring
	var first *time.Time // of what is held
	next = from
	for after := int64(0); ; {
		b, err := st.recorder.journal.Next(ctx, after, st.since, boot, from)
		if err != nil {
			st.log.Error().Err(err).Msg("history not read") // the status says why
		}
		if err != nil || b == nil {
			break
		}
		after = b.ID
		then := clock{offset: b.Zero}
		for i := range b.Records {
			x := &b.Records[i]
			at := then.wall(x.Time)
			if b.Boot == st.bootID && x.Seq < next || at == nil || at.Before(st.since) {
				continue
			}
			if !st.until.IsZero() && at.After(st.until) {
				return next, reasonUntil
			}
			if first == nil {
				first = at
				st.older(ctx, *at, from, x.Seq)
			}
			if b.Boot == st.bootID {
				next = x.Seq + 1
			}
			if st.sendPast(ctx, b, then, x); st.over {
				return next, reasonOver
			}
		}
		select {
		case <-st.stopping:
			return next, reasonStopping
		default:
		}
		if !st.flush() || ctx.Err() != nil {
			return next, reasonGone
		}
	}
	if first == nil { // what fell off the ring is told with what it still has
		st.older(ctx, st.started, from, r.began)
	}
	return max(next, r.began), "" // the numbers between are nobody's: another daemon began
}

// older says that what was asked for begins before what is held.
func (st *stream) older(ctx context.Context, first time.Time, from, seq uint64) {
	held, err := st.recorder.journal.First(ctx)
	if err != nil || held.IsZero() {
		held = first
	}
	lost := api.Event{Head: api.Head{Kind: "event"}, Type: "lost", Where: "history"}
	switch {
	case !st.since.IsZero() && st.since.Before(held):
		lost.Time = &held // nothing is held that is older
	case st.since.IsZero() && from < seq:
		lost.LostFrom, lost.LostTo = api.U64(from), api.U64(seq-1)
		if from >= st.owner.ring.began { // numbers of one daemon are events
			lost.Count = seq - from
		}
	default:
		return
	}
	st.encode(lost)
}

// sendPast encodes an event of the history that the reader asked for and may
// see.
func (st *stream) sendPast(ctx context.Context, b *journal.Block, then clock, x *journal.Record) {
	r := record{x.Seq, x.Event}
	if r.Type == 0 || int(r.Type) >= len(eventNames) || r.Type != tracer.EventLost && !st.mayReadPast(ctx, bootSession{b.Boot, r.Session}) {
		return
	}
	if st.session != 0 && r.Type == tracer.EventSession && r.Session == st.session && r.State == tracer.StateEmpty {
		st.over = true
	}
	if !st.wants(r.Type) {
		return
	}
	ev := then.event(&r, st.caller)
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
	if key.boot == st.bootID && st.boot == "" && st.mayRead(key.id) {
		return true
	}
	may, known := st.readable[key]
	if known {
		return may
	}
	row, err := st.recorder.journal.Session(ctx, key.boot, uint64(key.id))
	switch {
	case err != nil:
		return false
	case row == nil: // nobody's: for those who may read everything
		may = st.session == 0 && decide(st.caller, verbRead, target{uid: ^uint32(0)}).allow && st.caller.uid != ^uint32(0)
	default:
		may = decide(st.caller, verbRead, st.pastTarget(ctx, row, st.caller)).allow && st.selects(ctx, row)
	}
	st.readable[key] = may
	return may
}

// selects reports whether a session of the history is the one that was asked
// for, or nested in it.
func (st *stream) selects(ctx context.Context, row *journal.Session) bool {
	boot := st.boot
	if boot == "" {
		boot = st.bootID
	}
	for range 16 { // deeper than the kernel nests
		if st.session == 0 || row.Boot == boot && tracer.SessionID(row.ID) == st.session {
			return true
		}
		if row.Parent == 0 {
			return false
		}
		up, err := st.recorder.journal.Session(ctx, row.Boot, row.Parent)
		if err != nil || up == nil {
			return false
		}
		row = up
	}
	return false
}
