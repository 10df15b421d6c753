package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/secrets"
)

// An ended call is busy if what it has left uses that many CPUs so long after its end.
const (
	busyCPUs  = 0.5
	busyAfter = 5 * time.Minute
)

// settleTime is how long the daemon may report the end of a session that no event has yet.
const settleTime = time.Second

// seen is the daemon's last answer about what no event reports.
type seen struct {
	status *api.Status
	left   map[string]map[api.Ref]bool // by session: leftovers and brokered work
	busy   map[string]bool             // by session and call: they have left busy processes
}

// look makes records of changes that no event reports.
func (f *Follower) look(ctx context.Context, c api.Client) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	now := time.Now()
	if hide, err := secrets.Expressions(ctx, c); err == nil { // the policy may have been loaded again
		f.source.hide = hide
	}
	if s, err := c.Status(ctx); err == nil {
		if worthTelling(f.seen.status, s) {
			f.batch = append(f.batch, f.model.Status(f.seen.status, s, now))
		}
		f.seen.status = s
	}
	all, err := c.Orphans(ctx, "")
	if err != nil {
		return
	}
	left, fresh := make(map[string]map[api.Ref]bool), make(map[string][]api.Orphan)
	for _, o := range all.Items {
		if o.Session == "" || o.Brokered == nil && (o.Why != api.WhyLeftover || o.Kept) {
			continue
		}
		if left[o.Session] == nil {
			left[o.Session] = make(map[api.Ref]bool)
		}
		left[o.Session][o.Ref] = true
		if !f.seen.left[o.Session][o.Ref] {
			fresh[o.Session] = append(fresh[o.Session], o)
		}
	}
	f.seen.left = left
	for session, orphans := range fresh {
		f.batch = append(f.batch, f.model.Orphans(session, orphans, now))
	}
	busy := make(map[string]bool)
	for i := range all.Calls {
		c := &all.Calls[i]
		if _, ended := display.Took(c.Calls); c.Kept || c.CPUs < busyCPUs || ended == nil || now.Sub(*ended) < busyAfter {
			continue
		}
		key := fmt.Sprintf("%s %s %q", c.Session, c.Calls[0].Agent, c.Calls[0].ID)
		if busy[key] = true; !f.seen.busy[key] {
			f.batch = append(f.batch, f.model.Busy(c, now))
		}
	}
	f.seen.busy = busy
}

// worthTelling reports whether the status changed in a way that people must know.
func worthTelling(before, now *api.Status) bool {
	if before == nil {
		return len(now.Degraded) > 0 || now.Breaker.Open
	}
	return before.Level != now.Level || before.Mode != now.Mode || before.Breaker.Open != now.Breaker.Open || !slices.Equal(before.Degraded, now.Degraded)
}

// overlooked makes records of sessions that ended without an event: the ring had no room for it,
// the kernel's record was removed while no daemon ran, or the daemon let the session go.
// Everything up to the time caught has been read.
func (f *Follower) overlooked(ctx context.Context, caught time.Time) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	list, err := f.source.client.Sessions(ctx, "live", "")
	if err != nil {
		return
	}
	live := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		live[list.Items[i].ID] = true
	}
	before := caught.Add(-settleTime)
	for _, id := range f.model.Live() {
		if live[id] {
			continue
		}
		d, err := f.source.client.Session(ctx, id)
		if e, refused := errors.AsType[*api.Error](err); refused && e.Code == api.CodeNotFound {
			d, err = &api.Session{State: api.StateEnded, EndReason: "untracked"}, nil // released, or not in the history
		}
		if err != nil || d.State != api.StateEnded || d.Ended != nil && d.Ended.After(before) {
			continue // try again at the next heartbeat
		}
		if f.apply(&api.Event{Head: api.Head{Kind: "event"}, Type: api.EventSession, Session: id, State: d.State, Reason: d.EndReason, Time: d.Ended}) != nil {
			return
		}
	}
}
