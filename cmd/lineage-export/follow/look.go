package follow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
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
	left   map[string]map[api.Ref]bool // by session: leftovers and delegated work
	busy   map[string]bool             // by session and call: they have left busy processes
}

// look makes records of changes that no event reports.
func (f *Follower) look(ctx context.Context, c api.Client) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	now := time.Now()
	if hide, err := service.SecretExpressions(ctx, c); err == nil { // the policy may have been loaded again
		f.source.hide = hide
	}
	if s, err := c.Status(ctx); err == nil {
		if worthTelling(f.seen.status, s) {
			f.batch = append(f.batch, f.known.Changed(f.seen.status, s, now))
		}
		f.seen.status = s
	}
	all, err := c.Orphans(ctx, "")
	if err != nil {
		return
	}
	left, fresh := make(map[string]map[api.Ref]bool), make(map[string][]api.Orphan)
	for _, o := range all.Items {
		if o.Session == "" || o.Delegated == nil && (o.Why != api.WhyLeftover || o.Kept) {
			continue
		}
		if left[o.Session] == nil {
			left[o.Session] = make(map[api.Ref]bool)
		}
		left[o.Session][o.Ref] = true
		o.Argv = f.source.Redact(o.Argv)
		if b := o.Delegated; b != nil && b.Asked != nil {
			b.Asked.Argv = f.source.Redact(b.Asked.Argv)
		}
		if !f.seen.left[o.Session][o.Ref] {
			fresh[o.Session] = append(fresh[o.Session], o)
		}
	}
	f.seen.left = left
	for session, orphans := range fresh {
		f.batch = append(f.batch, f.known.Orphaned(session, orphans, now))
	}
	busy := make(map[string]bool)
	for i := range all.Calls {
		c := &all.Calls[i]
		if _, ended := display.Took(c.Calls); c.Kept || c.CPUs < busyCPUs ||
			ended == nil || now.Sub(*ended) < busyAfter {
			continue
		}
		key := fmt.Sprintf("%s %s %q", c.Session, c.Calls[0].Agent, c.Calls[0].ID)
		if busy[key] = true; !f.seen.busy[key] {
			for i := range c.Commands {
				c.Commands[i].Argv = f.source.Redact(c.Commands[i].Argv)
			}
			f.batch = append(f.batch, f.known.Runaway(c, now))
		}
	}
	f.seen.busy = busy
}

// worthTelling reports whether the status changed in a way that people must know.
func worthTelling(before, now *api.Status) bool {
	if before == nil {
		return len(now.Degraded) > 0 || now.Breaker.Open
	}
	return before.Level != now.Level || before.Mode != now.Mode ||
		before.Breaker.Open != now.Breaker.Open ||
		!slices.Equal(before.Degraded, now.Degraded)
}

// caughtUp is called when everything up to the time caught was read.
func (f *Follower) caughtUp(ctx context.Context, boot string, caught time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if !f.unseen.IsZero() {
		f.of(cmp.Or(f.at.Boot, boot))
		if err := f.ended(ctx); err != nil {
			return err
		}
		f.unseen = time.Time{}
	}
	f.of(boot)
	if f.at.Boot != boot { // nothing has happened since the host was restarted
		f.at = place{Schema: schema, Boot: boot, TimeNS: 1, Time: caught}
	}
	f.overlooked(ctx, caught)
	return nil
}

// ended makes records of sessions that have ended since the cursor without an event: the host was restarted,
// or no daemon ran, or the event was lost.
func (f *Follower) ended(ctx context.Context) error {
	for q := (api.HistoryQuery{Since: f.unseen, Limit: api.MaxPage}); ; {
		page, err := f.source.client.History(ctx, q)
		if err != nil {
			return unanswered(err)
		}
		for i := range page.Items {
			d := &page.Items[i]
			silent := d.EndReason == "reboot" || d.EndReason == "untracked"
			if !silent && (!f.gap || f.known.Over(d.ID) || d.Ended == nil || !d.Ended.After(f.unseen)) {
				continue
			}
			if err := f.apply(over(d.ID, d)); err != nil {
				return err
			}
		}
		if q.Next = page.Next; q.Next == "" {
			return nil
		}
	}
}

// over is the event that the end of a session should have had.
func over(id string, d *api.Session) *api.Event {
	return &api.Event{
		Head: api.Head{Kind: "event"}, Type: api.EventSession,
		Session: id, State: api.StateEnded, Reason: d.EndReason, Time: d.Ended,
	}
}

// overlooked makes records of sessions that ended without an event: the ring had no room for it,
// the kernel's record was removed while no daemon ran, or the daemon let the session go.
// Everything up to the time caught has been read.
func (f *Follower) overlooked(ctx context.Context, caught time.Time) {
	list, err := f.source.client.Sessions(ctx, "live", "")
	if err != nil {
		return
	}
	live := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		live[list.Items[i].ID] = true
	}
	before := caught.Add(-settleTime)
	for _, id := range f.known.Live() {
		if live[id] {
			continue
		}
		d, err := f.source.client.Session(ctx, id)
		if api.IsNotFound(err) {
			d, err = &api.Session{State: api.StateEnded, EndReason: "untracked"}, nil // released, or not in the history
		}
		if err != nil || d.State != api.StateEnded || d.Ended != nil && d.Ended.After(before) {
			continue // try again at the next heartbeat
		}
		if f.apply(over(id, d)) != nil {
			return
		}
	}
}
