//go:build linux

// Package receipts brings the receipts of ended sessions from the daemon through the outbox into the
// stream, each once.
//
// What is an event may be missed; what is in the history is not. So an event only says that there is
// something to look for: sessions that were seen live and no longer are, and what the history has since
// the last look. Each receipt is in the outbox before its session counts as done with, and is among those
// that are stored before it leaves the outbox.
package receipts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/outbox"
	"github.com/lineage-ebpf/lineage/cmd/lineage/secrets"
	"github.com/lineage-ebpf/lineage/cmd/lineage/statedir"
)

const (
	askTime  = 30 * time.Second
	soonTime = time.Second // between two looks while something changes

	settleTime  = 10 * time.Second // from the first look at the history to the second
	unknownTime = 24 * time.Hour   // after which a session that the daemon does not know is forgotten
	retryTime   = 2 * time.Second  // after an error
	streamTime  = 10 * time.Second // after an error of the stream of events
	maxOpen     = 32 << 10         // sessions that are noted: twice as many as a host can have live
)

// wholeTime is between two looks at the history, and overlap is theirs: the host's clock may be set back that
// far. Tests shorten both.
var wholeTime, overlap = time.Minute, time.Minute

// Reader takes receipts from the daemon. Its exported fields do not change after Open.
type Reader struct {
	Dial    func(context.Context) (api.Client, error)
	Dir     *statedir.Dir
	Box     *outbox.Box
	Host    string // its name in subjects
	Log     zerolog.Logger
	Changed chan struct{} // receives, if it has room, when a session began or changed

	mu    sync.Mutex
	state state
	rung  chan struct{} // a session began or changed
	cut   chan struct{} // the stream of events ended
	whole time.Time     // of the last look at the history by this connection
	looks int           // of this connection at the history
	short bool          // the last of these failed
	said  string        // the last error that was logged
}

// Open reads the state. An error is one that the user has to fix.
func (r *Reader) Open() error {
	r.rung, r.cut = make(chan struct{}, 1), make(chan struct{}, 1)
	return r.load()
}

// Run takes receipts until ctx is done.
func (r *Reader) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		r.say(err)
		Sleep(ctx, retryTime)
	}
}

// connect looks again and again until an error.
func (r *Reader) connect(ctx context.Context) error {
	c, err := r.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, stop := context.WithCancel(ctx)
	var bell sync.WaitGroup
	defer bell.Wait()
	defer stop()
	bell.Go(func() { r.listen(ctx, c) })
	r.whole, r.looks = time.Time{}, 0
	for {
		moving, err := r.look(ctx, c)
		pause := r.due()
		if moving {
			pause = soonTime
		}
		switch {
		case errors.As(err, new(unkept)):
			r.say(err)
			pause = retryTime
		case err != nil:
			return err
		case !r.short:
			r.say(nil)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		case <-r.rung:
			Sleep(ctx, soonTime) // more may come
		case <-r.cut: // this may be another daemon
			Sleep(ctx, soonTime)
			r.whole, r.looks = time.Time{}, 0
		}
	}
}

// say logs an error once, and when it is over.
func (r *Reader) say(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == r.said:
	case err != nil:
		r.Log.Warn().Err(err).Msg("receipts cannot be taken; trying again")
	default:
		r.Log.Info().Msg("receipts are taken again")
	}
	r.said = text
}

// unkept is the error of the outbox or of the state. The daemon need not be asked again at once.
type unkept struct{ error }

func (e unkept) Unwrap() error { return e.error }

// listen notes each session that an event is about.
func (r *Reader) listen(ctx context.Context, c api.Client) {
	for ctx.Err() == nil {
		_ = c.Events(ctx, api.EventsQuery{Types: []api.EventType{api.EventSession}}, func(e *api.Event) error {
			if e.Kind == "event" && e.Session != "" {
				r.mu.Lock()
				r.seen(e.Session)
				r.mu.Unlock()
			}
			if e.Kind == "event" {
				ring(r.rung)
				ring(r.Changed)
			}
			return nil
		}) // the looks need no events, and say what is wrong
		if ctx.Err() == nil {
			ring(r.cut)
		}
		Sleep(ctx, streamTime)
	}
}

// seen notes a session, if there is room: the history has the others. The caller holds the lock.
func (r *Reader) seen(id string) {
	if _, noted := r.state.Open[id]; noted || len(r.state.Open) < maxOpen {
		r.state.Open[id] = time.Time{}
	}
}

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// look takes the receipts of sessions that have ended. moving: some are about to.
func (r *Reader) look(ctx context.Context, c api.Client) (moving bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	hide := redactor(sync.OnceValues(func() (func([]string) []string, error) { return secrets.Redactor(ctx, c) })) // the policy may have been loaded again
	began := time.Now()
	live, err := c.Sessions(ctx, "live", "")
	if err != nil {
		return false, err
	}
	lives := make(map[string]bool, len(live.Items))
	r.mu.Lock()
	for i := range live.Items {
		s := &live.Items[i]
		lives[s.ID] = true
		r.seen(s.ID)
		moving = moving || s.State != api.StateActive
	}
	open := maps.Clone(r.state.Open)
	r.mu.Unlock()
	whole := began.Sub(r.whole) >= r.due()
	for id, unknown := range open {
		if lives[id] || !unknown.IsZero() && !whole {
			continue
		}
		s, err := c.Session(ctx, id)
		switch e, refused := errors.AsType[*api.Error](err); {
		case refused && e.Code == api.CodeNotFound:
			r.unknown(id, began)
			continue
		case err != nil:
			return false, err
		case s.State != api.StateEnded:
			moving = true
			continue
		}
		if err := r.take(ctx, c, hide, s.ID, receiptID(s), endOf(s)); err != nil {
			return false, err
		}
		r.done(id)
	}
	if whole {
		upTo := r.whole
		r.whole, r.looks, r.short = began, r.looks+1, true // also if it fails for want of room: the list may be long
		if err := r.past(ctx, c, hide, upTo); err != nil {
			return false, err
		}
		r.short = false
	}
	return moving, nil
}

// due is the time from a look at the history to the next one.
func (r *Reader) due() time.Duration {
	if r.looks == 1 {
		return min(settleTime, wholeTime)
	}
	return wholeTime
}

// unknown notes that the daemon does not know a session. It has let it go; or it has just begun, and has not
// written yet what ended while none ran.
func (r *Reader) unknown(id string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch since := r.state.Open[id]; {
	case since.IsZero():
		r.state.Open[id] = now
	case now.Sub(since) > unknownTime:
		delete(r.state.Open, id)
	}
}

// done forgets a session.
func (r *Reader) done(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.state.Open, id)
}

// ended is a session of the history.
type ended struct {
	session, id string
	at          time.Time
}

// redactor asks the daemon what hides secrets.
type redactor func() (func([]string) []string, error)

// past takes the receipts that the history has and no look at live sessions has shown, and notes that up to a
// time nothing is missing: that of the look before, because a daemon that has just begun may not have written
// yet what ended while none ran.
func (r *Reader) past(ctx context.Context, c api.Client, hide redactor, upTo time.Time) error {
	r.mu.Lock()
	since := r.state.Since
	r.mu.Unlock()
	var fresh []ended
	for q := (api.HistoryQuery{Since: since, Limit: 200}); ; {
		page, err := c.History(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Items {
			s := &page.Items[i]
			if id := receiptID(s); !r.has(id) {
				fresh = append(fresh, ended{s.ID, id, endOf(s)})
			}
		}
		if q.Next = page.Next; q.Next == "" {
			break
		}
	}
	for _, x := range slices.Backward(fresh) { // the oldest first: what has no room waits in the history
		if err := r.take(ctx, c, hide, x.session, x.id, x.at); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if upTo = upTo.Add(-overlap); upTo.After(since) {
		r.state.Since = upTo
	}
	maps.DeleteFunc(r.state.Stored, func(_ string, at time.Time) bool { return at.Before(r.state.Since) })
	if err := r.save(); err != nil {
		return unkept{err}
	}
	return nil
}

// has reports whether a receipt is in the outbox or in the stream.
func (r *Reader) has(id string) bool { return r.Box.Has(id) || r.stored(id) }

// stored reports whether the stream has a receipt, of those that are not older than the looks at the history.
func (r *Reader) stored(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, stored := r.state.Stored[id]
	return stored
}

// take brings the receipt of an ended session into the outbox.
func (r *Reader) take(ctx context.Context, c api.Client, hide redactor, session, id string, at time.Time) error {
	if r.has(id) {
		return nil
	}
	d, err := c.Report(ctx, session, 0)
	switch e, refused := errors.AsType[*api.Error](err); {
	case refused && e.Code == api.CodeNotFound: // the history has removed it meanwhile
		return nil
	case err != nil:
		return err
	case d.Verdict == "":
		return fmt.Errorf("session %s has ended, and has no verdict", session)
	}
	hidden, err := hide()
	if err != nil {
		return err
	}
	secrets.HideIn(d, hidden)
	item, err := ofSession(r.Host, id, at, d)
	if err != nil {
		return err
	}
	if err := r.Box.Put(item); err != nil {
		return unkept{err}
	}
	return nil
}

// Stored notes that the stream has a receipt.
func (r *Reader) Stored(item *outbox.Item) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Stored[item.ID] = item.Ended
	return r.save()
}

// receiptID is the id of the receipt of a session. The ids of sessions are random and short; with the
// start of the root they are unique on a host.
func receiptID(s *api.Session) string {
	var root api.Ref
	if s.Root != nil {
		root = s.Root.Ref
	}
	return s.ID + "-" + root.String()
}

func endOf(s *api.Session) time.Time {
	if s.Ended == nil {
		return time.Now()
	}
	return *s.Ended
}

func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
