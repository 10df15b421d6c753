// Package follow reads the daemon's events from a cursor on and hands records of them to a sink. The cursor moves when
// the sink has accepted them. A record is one thing that happened, with everything that a receiver needs to understand
// it.
package follow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

const (
	batchRecords = 1024
	batchTime    = time.Second      // how long a record waits for others
	lookTime     = 10 * time.Second // between two requests for what no event reports
	cursorTime   = 2 * time.Second  // between two writes of the cursor
	readAhead    = 1024             // events between the stream and the records
	lagTime      = 30 * time.Second // see patience
)

// Follower brings the events to one sink, in one goroutine. Its exported fields do not
// change after Run.
type Follower struct {
	Sink  Sink
	Dial  func(context.Context) (api.Client, error)
	Host  *Host
	Store *Store
	Log   zerolog.Logger

	known     *Known
	source    *source
	at        place     // the last event that was read
	acked     place     // the last event that the sink has accepted
	saved     place     // the cursor
	from      place     // where this stream began to read; no boot: it was passed
	gap       bool      // events were lost since this program started
	unseen    time.Time // since then, sessions may have ended that no event reported; zero: looked for
	batch     []*Record
	lag       patience  // with the history, which may not have yet what the ring has lost
	asking    patience  // with a daemon that does not answer
	wrote     time.Time // the cursor
	seen      seen
	unwritten service.Trouble // with the cursor
}

// patience is how long the follower tries again at one place before it continues without.
type patience struct {
	at    place
	since time.Time
}

func (p *patience) over(at place) bool {
	if p.at != at {
		*p = patience{at, time.Now()}
	}
	return time.Since(p.since) > lagTime
}

// errAgain: the stream must be opened again, at the last event that was read.
var errAgain = errors.New("read again")

// Open reads the cursor. An error is one that the user has to fix.
func (f *Follower) Open() error {
	cursor, err := f.Store.cursor(f.Sink.Name())
	if err != nil || cursor == nil {
		return err
	}
	f.acked, f.at, f.saved, f.unseen = *cursor, *cursor, *cursor, cursor.Time
	return nil
}

func (f *Follower) Run(ctx context.Context) {
	var unread service.Trouble
	for wait := firstPause; ctx.Err() == nil; {
		before := f.at
		err := f.connect(ctx)
		if errors.Is(err, errAgain) || f.at != before {
			wait, unread = firstPause, service.Trouble{}
		}
		if errors.Is(err, errAgain) {
			continue
		}
		if ctx.Err() == nil {
			unread.Say(f.Log, err, "the daemon's events cannot be read; trying again", "")
		}
		wait = pause(ctx, wait)
	}
	last, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	if f.deliverOnce(last) == nil {
		f.save(true)
	}
	if err := f.Sink.Close(); err != nil {
		f.Log.Warn().Err(err).Msg("sink not closed")
	}
}

// connect reads from the daemon until the connection, the sink or ctx ends.
func (f *Follower) connect(ctx context.Context) error {
	c, err := f.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if f.source, err = newSource(ctx, c); err != nil {
		return err
	}
	boot, err := bootID()
	if err != nil {
		return err
	}
	if f.known != nil {
		f.known.From = f.source
	}
	q := api.EventsQuery{Types: EventTypes, Compressed: true}
	switch {
	case f.at.Boot == "": // nothing was ever read
		q.Snapshot = true
	case f.at.Boot == boot && f.at.Seq != 0:
		q.From, q.Snapshot = uint64(f.at.Seq), f.known == nil
	default:
		q.Since, q.Snapshot = f.at.Time.Add(-time.Second), f.at.Boot == boot && f.known == nil
	}
	f.from = f.at
	return f.stream(ctx, c, q, boot)
}

func boottime() api.U64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // it exists since 2.6.39
	return api.U64(ts.Nano())
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot's id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// stream reads one stream. A goroutine takes the lines, so that a batch can be delivered
// while the next line has not arrived.
func (f *Follower) stream(ctx context.Context, c api.Client, q api.EventsQuery, boot string) (err error) {
	reading, stop := context.WithCancel(ctx)
	events := make(chan *api.Event, readAhead)
	broke := make(chan error, 1)
	defer func() {
		stop()
		for range events { // what was read ahead will be read again
		}
	}()
	go func() {
		defer close(events)
		broke <- c.Events(reading, q, func(e *api.Event) error {
			select {
			case events <- e:
				return nil
			case <-reading.Done():
				return reading.Err()
			}
		})
	}()
	flush := time.Tick(batchTime / 2)
	look := time.Tick(lookTime)
	for {
		select {
		case e, more := <-events:
			if !more {
				err := f.deliver(ctx, stop)
				if err == nil {
					err = <-broke
				}
				return err
			}
			if err := f.take(ctx, e, boot); err != nil {
				return err
			}
			if len(f.batch) < batchRecords {
				continue
			}
		case <-look:
			if f.known != nil && f.known.Boot == boot {
				f.look(ctx, c)
			}
			continue
		case <-flush:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := f.deliver(ctx, stop); err != nil {
			return err
		}
	}
}

// take adds the record of an event to the batch.
func (f *Follower) take(ctx context.Context, e *api.Event, boot string) error {
	switch e.Kind {
	case "recording", "process":
		f.of(boot)
		if f.at.Boot == "" { // start here, even if the connection breaks before the first event
			f.at = place{Schema: schema, Boot: boot, TimeNS: boottime(), Time: time.Now()}
			f.acked = f.at
			f.write()
		}
		f.known.Prime(e)
		return nil
	case "event":
	case "heartbeat": // is sent when nothing is left to send
		caught := time.Now().Add(-time.Duration(boottime() - e.TimeNS))
		return f.caughtUp(ctx, boot, caught)
	default:
		return nil
	}
	if e.Type == api.EventSession && e.TimeNS == 0 { // of the snapshot
		f.of(boot)
		f.known.Prime(e)
		return nil
	}
	if e.Type == api.EventLost {
		if f.missing(ctx, e) {
			return errAgain
		}
		if e.Where == "history" && e.LostFrom != 0 && e.LostFrom == f.at.Seq { // requested again
			if e.LostFrom++; e.LostFrom > e.LostTo {
				return nil
			}
			e.Count = max(e.Count, 1) - 1
		}
	}
	if e.BootID != "" {
		boot = e.BootID
	}
	here := place{Schema: schema, Boot: boot, Seq: e.Seq, TimeNS: e.TimeNS, Time: f.at.Time}
	if e.Time != nil {
		here.Time = *e.Time
	}
	placed := e.TimeNS != 0
	if placed && f.read(&here) {
		return nil
	}
	f.of(boot)
	if err := f.apply(e); err != nil {
		return err
	}
	if placed {
		f.at = here
	}
	return nil
}

// read reports whether an event was read before. Events of an earlier boot have no number, and are not in
// the order of their times: only what comes before the first new one is compared by its time.
func (f *Follower) read(here *place) bool {
	switch {
	case here.Boot == f.at.Boot && here.Seq != 0 && f.at.Seq != 0:
		return here.Seq <= f.at.Seq
	case here.Boot == f.from.Boot && here.behind(&f.from):
		return true
	}
	f.from = place{}
	return false
}

// apply adds the record of an event to the batch. On an error the daemon has to be asked again about
// the session, and the event has to be read again.
func (f *Follower) apply(e *api.Event) error {
	if e.Time == nil {
		e.Time = new(f.at.Time)
	}
	r, err := f.known.Take(e)
	if r.Kind == End && err == nil {
		r.Report, err = f.source.report(e.Session)
	}
	if err != nil && !f.asking.over(f.at) {
		return err
	}
	f.gap = f.gap || r.Kind == api.EventLost
	f.batch = append(f.batch, r)
	return nil
}

// of makes what is known that of a boot.
func (f *Follower) of(boot string) {
	if f.known == nil || f.known.Boot != boot {
		f.known = NewKnown(f.Host, boot, f.source)
	}
}

// missing reports whether the history may still have the events that this reader was too slow to get.
func (f *Follower) missing(ctx context.Context, e *api.Event) (again bool) {
	if again = e.Where == "reader" && f.at.Seq != 0 && !f.lag.over(f.at); again {
		pause(ctx, firstPause) // the history is written in batches
	}
	return again
}
