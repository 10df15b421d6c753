//go:build linux

package history

import (
	"context"
	"errors"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/system"
)

func (r *Recorder) run(ctx context.Context) {
	defer close(r.done)
	if err := r.Journal.Check(ctx); err != nil && !errors.Is(err, ErrUnusable) && ctx.Err() == nil {
		r.Log.Error().Err(err).Str(system.KeyPath, r.Journal.Path()).Msg("history not checked")
	}
	work := system.PacedWork{Share: r.pauses.share}
	var whole time.Time // the last flush
	for more, marked := true, false; more; {
		work.Begin()
		if marked && time.Since(whole) < r.pauses.period {
			// Of a storm only a little: when many sessions end at once, the members need the CPU to exit.
			r.turn(recordChunk)
		} else {
			whole = time.Now()
			r.flush(r.pauses.period)
		}
		rest := work.End()
		select { // marks cut the pause short, but not the rest
		case <-ctx.Done():
		case <-time.After(rest):
		}
		more, marked = r.wait(ctx, time.After(r.pauses.period-rest))
		if more && !marked {
			more, marked = r.wait(ctx, nil)
		}
		for began := time.Now(); more && !marked && r.Ring.End()-r.next < recordChunk &&
			time.Since(began) < r.pauses.gather; {
			more, marked = r.wait(ctx, time.After(r.pauses.period))
		}
	}
	r.flush(r.pauses.limit)
}

// wait waits for the end of rest or for marks; without rest, until there is something to write.
// more is false when the recorder has to stop.
func (r *Recorder) wait(ctx context.Context, rest <-chan time.Time) (more, marked bool) {
	var added <-chan struct{}
	if rest == nil {
		_, _, added = r.Ring.Read(r.next, nil)
		if r.Ring.End() != r.next || len(r.over)+len(r.sessions)+len(r.touched) > 0 {
			return true, false // it was added before
		}
	}
	select {
	case <-ctx.Done():
	case <-r.saving: // a session begins, ends or is dissolved
		marked = true
	case <-rest:
	case <-added:
	}
	return ctx.Err() == nil, marked
}
