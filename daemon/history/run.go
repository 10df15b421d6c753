//go:build linux

package history

import (
	"context"
	"errors"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/journal"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/pace"
)

func (r *Recorder) run(ctx context.Context) {
	defer close(r.done)
	if err := r.journal.Check(ctx); err != nil && !errors.Is(err, journal.ErrUnusable) && ctx.Err() == nil {
		r.log.Error().Err(err).Str(logging.KeyPath, r.journal.Path()).Msg("history not checked")
	}
	work := pace.Work{Least: r.period, Share: recordShare}
	for {
		work.Begin()
		r.flush(r.period)
		rest := time.NewTimer(work.End())
		more := r.wait(ctx, rest.C)
		rest.Stop()
		if more && !r.pending() {
			more = r.wait(ctx, nil)
		}
		if !more {
			r.flush(recordClose)
			return
		}
	}
}

// wait rests until then, or, without an end, until there is something to write; false: never.
func (r *Recorder) wait(ctx context.Context, rest <-chan time.Time) bool {
	var added <-chan struct{}
	if rest == nil {
		if _, _, added = r.ring.Read(r.next, nil); r.pending() {
			return true // it was added before
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-r.saving: // a session begins or ends
	case <-rest:
	case <-added:
	}
	return true
}

// pending reports whether there is something to write, sessions that wait for saving left out.
func (r *Recorder) pending() bool {
	return r.ring.End() != r.next || len(r.over)+len(r.sessions)+len(r.touched) > 0
}
