//go:build linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/outfile"
	"github.com/lineage-ebpf/lineage/cmd/lineage/perfetto"
	"github.com/lineage-ebpf/lineage/cmd/lineage/secrets"
)

const (
	// streamTime is how long the daemon may take to begin its stream of events.
	streamTime = 5 * time.Second
	// usageEvery is how often the session's usage is read, and how old the timeline may
	// be for a reader meanwhile.
	usageEvery = time.Second
	// lastEvents is how long the last events may take when the session is over. A session
	// that lives on has no last event.
	lastEvents, settleTime = 8 * time.Second, 500 * time.Millisecond
)

// recorder writes the timeline of the session while the command runs. A failure is reported
// once, and changes nothing else.
type recorder struct {
	r      *runner
	file   *outfile.File
	cancel context.CancelFunc
	ready  chan struct{} // closed at the first line of events
	over   chan struct{} // closed when the events have ended
	begun  sync.Once

	query api.EventsQuery // what to request if the stream breaks
	asked api.U64         // the start of the missed events that were requested again

	mu    sync.Mutex // held while the timeline is written
	out   *os.File   // nil: it is published, or given up
	trace *perfetto.Trace
}

// record begins the timeline. It returns when the stream of events is open, so that the
// command's first event is included.
func (r *runner) record(ctx context.Context) (*recorder, error) {
	out, err := r.timeline.Create()
	if err != nil {
		return nil, err
	}
	c := &recorder{r: r, file: r.timeline, out: out, ready: make(chan struct{}), over: make(chan struct{}),
		query: api.EventsQuery{Session: r.session.ID, Snapshot: true}}
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go c.run(ctx)
	select {
	case <-c.ready:
	case <-c.over:
	case <-time.After(streamTime):
		r.say("%s: trace %s: the daemon sends no events yet; what happens until then is missing", r.verb, r.Trace)
	}
	return c, nil
}

// run reads events until the session is over, from one daemon after the other if need be.
func (c *recorder) run(ctx context.Context) {
	defer close(c.over)
	for pause := firstPause; ; pause = min(2*pause, usageEvery) {
		err := c.listen(ctx)
		switch {
		case ctx.Err() != nil || err == nil:
			return
		case errors.Is(err, errAgain):
			pause = 0
		case errors.As(err, new(*unwritten)), !lost(err):
			c.r.say("%s: trace %s: not written: %v", c.r.verb, c.r.Trace, err)
			c.discard()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// errAgain means: request the events again, from query.From.
var errAgain = errors.New("ask again")

// listen reads the events of one stream; nil: the session is over.
func (c *recorder) listen(ctx context.Context) error {
	client, err := c.r.Dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := c.begin(ctx, client); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.measure(ctx, client)
	again := errAgain
	err = client.Events(ctx, c.query, func(ev *api.Event) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if ev.Kind == "end" {
			if ev.Reason == "session_over" {
				again = nil
			}
			return nil
		}
		return c.take(ev)
	})
	if err == nil {
		err = again
	}
	return err
}

// begin makes the timeline, once.
func (c *recorder) begin(ctx context.Context, client api.Client) error {
	if c.trace != nil {
		return nil
	}
	redact, err := secrets.Redactor(ctx, client)
	if lost(err) {
		return err
	}
	if err != nil {
		c.r.say("%s: trace %s: arguments are left out: %v", c.r.verb, c.r.Trace, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trace = perfetto.New(c.out, c.r.session, redact)
	return nil
}

// take adds an event. Events that this reader was too slow for are requested once more:
// the history has them.
func (c *recorder) take(ev *api.Event) error {
	c.begun.Do(func() { close(c.ready) })
	if c.out == nil {
		return context.Canceled
	}
	if ev.Type == api.EventLost && ev.Where == "reader" && ev.LostFrom > c.asked {
		c.asked = ev.LostFrom
		c.query.From, c.query.Snapshot = uint64(ev.LostFrom), false
		return errAgain
	}
	if err := c.trace.Event(ev); err != nil {
		return &unwritten{err}
	}
	if ev.Seq != 0 {
		c.query.From, c.query.Snapshot = uint64(ev.Seq)+1, false
	}
	return nil
}

// measure adds the session's usage, repeatedly.
func (c *recorder) measure(ctx context.Context, client api.Client) {
	for every := time.NewTicker(usageEvery); ; {
		s, err := client.Session(ctx, c.r.session.ID)
		if err == nil {
			c.mu.Lock()
			if c.out != nil {
				_ = c.trace.Usage(s, time.Now()) // the next event reports the error
				_ = c.trace.Flush()
			}
			c.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			every.Stop()
			return
		case <-every.C:
		}
	}
}

// unwritten is an error of the file, not of the daemon.
type unwritten struct{ err error }

func (u *unwritten) Error() string { return u.err.Error() }

// discard removes what was written, unless it was published.
func (c *recorder) discard() {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if out := c.out; out != nil {
		c.out = nil
		_ = c.file.Publish(out, context.Canceled)
	}
}

// close waits for the last events, and publishes the timeline with the receipt.
func (c *recorder) close(rep *api.Report) error {
	wait, missing := settleTime, ""
	switch {
	case rep.State == api.StateEnded:
		wait, missing = lastEvents, fmt.Sprintf("the daemon did not send the last events within %v", lastEvents)
	case rep.Verdict == api.VerdictUnknown:
		missing = "the daemon does not answer"
	}
	select {
	case <-c.over:
		missing = ""
	case <-time.After(wait):
	}
	c.cancel()
	<-c.over
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.out
	if out == nil {
		return nil // reported already
	}
	c.out = nil
	if c.trace == nil {
		return c.file.Publish(out, errors.New("the daemon sent no events"))
	}
	if missing != "" {
		c.trace.Missing(missing)
	}
	if err := c.file.Publish(out, c.trace.Close(rep)); err != nil || missing == "" {
		return err
	}
	return errors.New(missing)
}
