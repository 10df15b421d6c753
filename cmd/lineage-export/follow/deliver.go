package follow

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstPause   = 250 * time.Millisecond
	longestPause = 30 * time.Second
	attemptTime  = 30 * time.Second // one delivery may take
	lastTime     = 5 * time.Second  // the last one
)

// deliver hands the batch to the sink until the sink accepts it. After the first failure
// nothing is read: the daemon must not wait for a sink.
func (f *Follower) deliver(ctx context.Context, stopReading context.CancelFunc) error {
	wait, stopped := firstPause, false
	for {
		err := f.deliverOnce(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !stopped {
			f.Log.Warn().Err(err).Msg("the receiver does not take records; trying again")
			stopped = true
			stopReading()
		}
		wait = pause(ctx, wait)
	}
	f.save(false)
	if stopped {
		f.Log.Info().Msg("the receiver takes records again")
		return errAgain
	}
	return nil
}

func (f *Follower) deliverOnce(ctx context.Context) error {
	if len(f.batch) > 0 {
		ctx, cancel := context.WithTimeout(ctx, attemptTime)
		defer cancel()
		if err := f.Sink.Deliver(ctx, f.batch); err != nil {
			return err
		}
		clear(f.batch)
		f.batch = f.batch[:0]
	}
	f.acked = f.at
	return nil
}

// save writes how far the sink is. At the end it is always written.
func (f *Follower) save(last bool) {
	if f.acked.Boot == "" || f.acked == f.saved && !last {
		return
	}
	if now := time.Now(); last || now.Sub(f.wrote) >= cursorTime {
		f.wrote, f.saved = now, f.acked
		f.write()
	}
}

// write writes the cursor. Records are delivered also if that cannot be done.
func (f *Follower) write() {
	f.unwritten.Say(
		f.Log,
		f.Store.writeCursor(f.Sink.Name(), &f.acked),
		"the cursor cannot be written; after a restart records come again",
		"the cursor is written again",
	)
}

// pause waits, and returns how long to wait the next time.
func pause(ctx context.Context, d time.Duration) time.Duration {
	sleep(ctx, d/2+rand.N(d))
	return min(2*d, longestPause)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
