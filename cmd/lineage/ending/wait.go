package ending

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
)

// grace is the time between SIGTERM and SIGKILL of a target whose end has begun.
func (t *target) grace(ctx context.Context, c api.Client, o *Options) (time.Duration, error) {
	if t.session == nil && !o.Now && o.Grace == nil {
		var err error
		if t.session, err = c.Session(ctx, t.report.Session); err != nil {
			return 0, err
		}
	}
	return o.grace(t.session), nil
}

// begun is an error that came after the end had begun.
func begun(err error) error {
	if lost, ok := errors.AsType[*api.UnreachableError](err); ok {
		lost.Asked = true
	}
	return err
}

// wait returns when every target has a verdict, an error or no time left.
func (e *Ender) wait(ctx context.Context, targets []*target) {
	interrupts, stop := e.Console.Interrupts()
	defer stop()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	hurried, hurry := context.WithCancel(ctx)
	defer hurry()
	line := e.Console.Status()
	defer line.Clear()
	counts := census{c: e.Client}
	over := make(chan struct{})
	var mu sync.Mutex // guards the targets' reports and errors
	var all sync.WaitGroup
	began := time.Now()
	for _, t := range targets {
		if t.err != nil || t.report.Verdict != "" {
			continue
		}
		counts.begin(t.report)
		all.Go(func() {
			w := waiting{c: e.Client, id: t.report.Session, hurried: hurried, timeout: e.Timeout}
			var report *api.Report
			grace, err := t.grace(ctx, e.Client, &e.Options)
			if err == nil {
				counts.kills(began.Add(grace))
				report, err = w.report(ctx, grace)
			}
			mu.Lock()
			defer mu.Unlock()
			t.err = begun(err)
			if report != nil {
				t.report = report
			}
		})
	}
	go func() { all.Wait(); close(over) }()
	if line.Possible() && len(counts.ending) > 0 {
		go counts.count(ctx)
	}
	ticks := time.Tick(cli.Patience)
	for asked := false; ; {
		select {
		case <-over:
			return
		case now := <-ticks:
			if hurried.Err() == nil {
				line.Show(counts.text(now))
			}
		case s := <-interrupts:
			switch {
			case s == syscall.SIGTERM:
				leave(errLeft)
			case asked || line.Shown:
				line.Clear()
				e.Console.Say("end: killing now")
				hurry()
			default:
				asked = true
				mu.Lock()
				pending := 0
				for _, t := range targets {
					if t.err == nil && t.report.Verdict == "" {
						pending++
					}
				}
				mu.Unlock()
				e.Console.Say("end: still ending %s; Ctrl-C again kills now",
					display.Count(pending, "session"))
			}
		}
	}
}

var errLeft = errors.New("received SIGTERM; the end continues without this command")

type waiting struct {
	c       api.Client
	id      string
	hurried context.Context // done: --now from here on
	timeout time.Duration   // after SIGKILL
}

const (
	// pollSlack is how much later than requested a daemon may answer.
	pollSlack = 10 * time.Second
	// pollPause is the least time between two requests: a daemon that stops does not wait.
	pollPause = 50 * time.Millisecond
)

// report returns the report when it has a verdict, or the latest one when the time is
// over.
func (w *waiting) report(ctx context.Context, grace time.Duration) (*api.Report, error) {
	hurried := w.hurried.Done()
	deadline := time.Now().Add(grace + w.timeout)
	for {
		left := max(time.Until(deadline), 0)
		asked := time.Now()
		poll, cancel := context.WithTimeout(ctx, left+pollSlack)
		stop := func() bool { return true }
		if hurried != nil {
			stop = context.AfterFunc(w.hurried, cancel)
		}
		r, err := w.c.Report(poll, w.id, min(left, api.MaxWait))
		stop()
		cancel()
		switch {
		case err == nil && (r.Verdict != "" || left == 0):
			return r, nil
		case ctx.Err() != nil:
			return r, fmt.Errorf("end %s: %w", w.id, context.Cause(ctx))
		case hurried != nil && w.hurried.Err() != nil:
			hurried = nil
			if r, err = w.c.End(ctx, w.id, api.EndRequest{Now: true}); err != nil || r.Verdict != "" {
				return r, err
			}
			deadline = time.Now().Add(w.timeout)
			continue
		case err != nil:
			return nil, err
		}
		if time.Since(asked) < min(left, pollPause) {
			select {
			case <-time.After(pollPause):
			case <-hurried:
			case <-ctx.Done():
			}
		}
	}
}
