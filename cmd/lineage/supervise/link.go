//go:build linux

package supervise

import (
	"context"
	"errors"
	"math"
	"os"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// link is our connection to the daemon, which may come and go while the command lives. Afterwards a lost daemon is
// dialled again, and a new one is started only if none comes back. Safe for concurrent use.
type link struct {
	connect, dial func(context.Context) (api.Client, error)
	mu            sync.Mutex
	client        api.Client // nil: lost
}

// A service manager starts the daemon again within 100 ms (RestartSec= of the unit), and from then on
// the new one holds the lock: a connect waits for it.
const (
	firstPause  = 50 * time.Millisecond // doubled after each
	dials       = 3                     // 350 ms
	reconnects  = 5                     // for one call: the daemon may be lost again
	connectTime = 15 * time.Second
)

// createTimeout bounds the wait for a daemon that accepts and does not answer.
const createTimeout = 30 * time.Second

// ask calls f with a client, and again if the daemon was lost meanwhile.
func ask[T any](ctx context.Context, l *link, f func(api.Client) (T, error)) (answer T, err error) {
	for n := 0; ; n++ {
		c, err := l.get(ctx)
		if err != nil {
			return answer, err
		}
		answer, err = f(c)
		if ctx.Err() != nil {
			return answer, ctx.Err()
		}
		if !lost(err) || n == reconnects {
			return answer, err
		}
		l.drop(c)
	}
}

// lost reports whether another try can help after err: no answer, or one from a daemon
// that is starting or stopping.
func lost(err error) bool {
	if refused, ok := errors.AsType[*api.Error](err); ok {
		return refused.Code == api.CodeStarting || refused.Code == api.CodeStopping
	}
	return err != nil
}

func (l *link) get(ctx context.Context) (api.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != nil {
		return l.client, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	pause := firstPause
	for range dials {
		if c, err := l.dial(ctx); err == nil {
			l.client = c
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
			pause *= 2
		}
	}
	c, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	l.client = c
	return c, nil
}

// drop forgets c, unless another call did already.
func (l *link) drop(c api.Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == c {
		c.Close()
		l.client = nil
	}
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != nil {
		l.client.Close()
		l.client = nil
	}
}

// create opens the session, and says if it has to wait for its name.
func (r *runner) create(ctx context.Context, link *link, signals <-chan os.Signal,
	pid int) (err error) {
	wait := createTimeout
	if r.Exclusive == api.ExclusiveWait || r.Exclusive == api.ExclusiveReplace {
		wait = math.MaxInt64
		defer time.AfterFunc(time.Second,
			func() { r.say("run: waiting for the session name %s", r.Name) }).Stop()
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	r.session, err = unlessEnded(ctx, r, signals, func(ctx context.Context) (*api.Session, error) {
		return ask(ctx, link, func(c api.Client) (*api.Session, error) { return c.Create(ctx, r.request(pid)) })
	})
	refused, ok := errors.AsType[*api.Error](err)
	switch {
	case ok && refused.Code == api.CodeBusyName && r.Exclusive != "":
		return &failure{exitBusy, refused}
	case err != nil || r.Quiet:
		return err
	}
	for _, id := range r.session.Replaced {
		said := "ended session " + id
		if rep, err := link.report(ctx, id, 0); err == nil {
			for _, n := range display.AfterEnd(rep, &display.Names{Command: commandOf}) {
				if n.Tone != display.Faint { // a port may be in use still
					said += "; " + n.Text
				}
			}
		}
		r.say("run: %s", said)
	}
	return nil
}
