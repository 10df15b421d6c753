//go:build linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/outfile"
	"github.com/lineage-ebpf/lineage/cmd/lineage/secrets"
	"github.com/lineage-ebpf/lineage/cmd/lineage/timeline"
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

// recorder draws the session in a file while the command runs: the timeline of --trace, or the page
// of --report. A failure is reported once, and changes nothing else.
type recorder struct {
	r      *runner
	what   string // the flag
	name   string // of the file
	file   *outfile.File
	start  timeline.Begin
	cancel context.CancelFunc
	ready  chan struct{} // closed at the first line of events
	over   chan struct{} // closed when the events have ended
	begun  sync.Once

	query api.EventsQuery // what to request if the stream breaks
	asked api.U64         // the start of the missed events that were requested again

	mu      sync.Mutex // held while the drawing is written
	out     *os.File   // nil: it is not created yet
	done    bool       // it is published, or given up
	drawing timeline.Drawing
}

// isPage reports whether a receipt is to be a page.
func isPage(report string) bool { return strings.EqualFold(filepath.Ext(report), ".html") }

// isReceipt reports whether it draws the receipt that was requested.
func (c *recorder) isReceipt() bool { return c.what == "report" }

// Write writes to the file. A timeline is written from the beginning, and the page when all is over.
func (c *recorder) Write(b []byte) (int, error) {
	if err := c.create(); err != nil {
		return 0, err
	}
	return c.out.Write(b)
}

func (c *recorder) create() (err error) {
	if c.out == nil {
		c.out, err = c.file.Create()
	}
	return err
}

// record begins to draw. It returns when the stream of events is open, so that the command's first
// event is included.
func (c *recorder) record(ctx context.Context) error {
	if !c.isReceipt() {
		if err := c.create(); err != nil {
			return err
		}
	}
	c.ready, c.over = make(chan struct{}), make(chan struct{})
	c.query = api.EventsQuery{Session: c.r.session.ID, Snapshot: true}
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go c.run(ctx)
	select {
	case <-c.ready:
	case <-c.over:
	case <-time.After(streamTime):
		c.say("the daemon sends no events yet; what happens until then is missing")
	}
	return nil
}

// say prints a line about the file.
func (c *recorder) say(format string, args ...any) {
	c.r.say("%s: %s %s: %s", c.r.verb, c.what, c.name, fmt.Sprintf(format, args...))
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
		case c.isReceipt() && !lost(err):
			c.say("what happens is missing: %v", err)
			return
		case errors.As(err, new(*unwritten)), !lost(err):
			c.say("not written: %v", err)
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
	if err == nil && c.isReceipt() {
		c.usage(ctx, client)
	}
	return err
}

// begin makes the drawing, once.
func (c *recorder) begin(ctx context.Context, client api.Client) error {
	if c.drawing != nil {
		return nil
	}
	redact, err := secrets.Redactor(ctx, client)
	if lost(err) {
		return err
	}
	if err != nil {
		c.say("arguments are left out: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drawing = c.start(c, c.r.session, redact)
	return nil
}

// take adds an event. Events that this reader was too slow for are requested once more:
// the history has them.
func (c *recorder) take(ev *api.Event) error {
	c.begun.Do(func() { close(c.ready) })
	if c.done {
		return context.Canceled
	}
	if ev.Type == api.EventLost && ev.Where == "reader" && ev.LostFrom > c.asked {
		c.asked = ev.LostFrom
		c.query.From, c.query.Snapshot = uint64(ev.LostFrom), false
		return errAgain
	}
	if err := c.drawing.Event(ev); err != nil {
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
		c.usage(ctx, client)
		select {
		case <-ctx.Done():
			every.Stop()
			return
		case <-every.C:
		}
	}
}

// usage adds the session's usage now.
func (c *recorder) usage(ctx context.Context, client api.Client) {
	s, err := client.Session(ctx, c.r.session.ID)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.done {
		_ = c.drawing.Usage(s, time.Now()) // the next event reports the error
		_ = c.drawing.Flush()
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
	if !c.done && c.out != nil {
		_ = c.file.Publish(c.out, context.Canceled)
	}
	c.done = true
}

// close waits for the last events, and publishes the drawing with the receipt. missing says which
// events are not in it, although it is published.
func (c *recorder) close(rep *api.Report) (missing string, err error) {
	wait := settleTime
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
	if c.done {
		return "", nil // reported already
	}
	c.done = true
	const silent = "the daemon sent no events"
	switch {
	case c.drawing == nil && !c.isReceipt():
		return "", c.file.Publish(c.out, errors.New(silent))
	case c.drawing == nil:
		c.drawing, missing = c.start(c, c.r.session, nil), silent
	}
	if missing != "" {
		c.drawing.Missing(missing)
	}
	err = c.drawing.Close(rep)
	if c.out == nil {
		return "", err
	}
	return missing, c.file.Publish(c.out, err)
}
