//go:build linux

package supervise

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// link is our way to the daemon. The daemon may come and go: nothing depends
// on it while the command lives, and so nobody looks for it then. Afterwards a
// lost one is dialled again, and only if none comes back is one started. Safe
// for concurrent use.
type link struct {
	connect, dial func(context.Context) (api.Client, error)
	mu            sync.Mutex
	client        api.Client // nil: lost
}

// A daemon that its service manager restarts is back within a second.
const (
	firstPause  = 50 * time.Millisecond
	dials       = 4
	reconnects  = 5 // of one call: a daemon may be lost again
	connectTime = 15 * time.Second
)

func newLink(c api.Client, connect, dial func(context.Context) (api.Client, error)) *link {
	return &link{connect: connect, dial: dial, client: c}
}

// do calls f with a client, again if the daemon was lost meanwhile.
func (l *link) do(ctx context.Context, f func(api.Client) error) error {
	for n := 0; ; n++ {
		c, err := l.get(ctx)
		if err != nil {
			return err
		}
		err = f(c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !lost(err) || n == reconnects {
			return err
		}
		l.drop(c)
	}
}

// lost tells whether err means that another try can help: no answer, or one
// from a daemon that comes or goes.
func lost(err error) bool {
	var refused *api.Error
	if errors.As(err, &refused) {
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

// drop forgets c, unless somebody did already.
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
