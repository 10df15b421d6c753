package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/console"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// grace is the time between SIGTERM and SIGKILL of a target whose end has begun.
func (t *target) grace(ctx context.Context, c api.Client, o endOptions) (time.Duration, error) {
	if t.session == nil && !o.now && !o.graceSet {
		var err error
		if t.session, err = c.Session(ctx, t.report.Session); err != nil {
			return 0, err
		}
	}
	return graceOf(t.session, o), nil
}

// wait returns when every target has a verdict, an error or no time left.
func (a *app) wait(ctx context.Context, c api.Client, o endOptions, targets []*target) {
	interrupts, stop := a.Interrupts()
	defer stop()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	hurried, hurry := context.WithCancel(ctx)
	defer hurry()
	line := a.Status()
	defer line.Clear()
	counts := census{c: c}
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
			w := waiting{c: c, id: t.report.Session, hurried: hurried, timeout: o.timeout}
			var report *api.Report
			grace, err := t.grace(ctx, c, o)
			if err == nil {
				counts.kills(began.Add(grace))
				report, err = w.report(ctx, grace)
			}
			mu.Lock()
			defer mu.Unlock()
			t.err = err
			if report != nil {
				t.report = report
			}
		})
	}
	go func() { all.Wait(); close(over) }()
	if line.Possible() && len(counts.ending) > 0 {
		go counts.count(ctx)
	}
	ticks := time.NewTicker(console.Patience)
	defer ticks.Stop()
	for asked := false; ; {
		select {
		case <-over:
			return
		case now := <-ticks.C:
			if hurried.Err() == nil {
				line.Show(counts.text(now))
			}
		case s := <-interrupts:
			switch {
			case s == syscall.SIGTERM:
				leave(errLeft)
			case asked || line.Shown:
				line.Clear()
				a.Say("end: killing now")
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
				a.Say("end: still ending %s; Ctrl-C again kills now", display.Count(pending, "session", "sessions"))
			}
		}
	}
}

// errLeft is the end of a wait by SIGTERM.
var errLeft = errors.New("received SIGTERM; the end continues without this command")

// waiting is for the end of one session.
type waiting struct {
	c       api.Client
	id      string
	hurried context.Context // done: --now from here on
	timeout time.Duration   // after SIGKILL
}

const (
	// pollSlack is how much later than asked for a daemon may answer.
	pollSlack = 10 * time.Second
	// pollPause is between two questions to a daemon that does not wait.
	pollPause = 50 * time.Millisecond
)

// report gives the report when it has a verdict, or the last one when the
// time is over.
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

// report prints the receipts, says on stderr what went wrong, and gives the
// worst exit code as a told error.
func (a *app) report(targets []*target, format string) error {
	var reports []text.Receipt
	for _, t := range targets {
		if t.report != nil {
			t.report.Head = text.Head("report")
			reports = append(reports, text.Receipt{Report: t.report, Before: t.before})
		}
	}
	if len(reports) > 0 {
		if err := a.Print(format, text.Receipts(reports, len(targets) > 1)); err != nil {
			return err
		}
	}
	worst := api.ExitOK
	for _, t := range targets {
		switch {
		case t.err != nil:
			a.Complain(t.err)
			worst = max(worst, exit.Code(t.err))
		case t.report.Verdict != "clean":
			a.Say("%s", text.Shortfall(t.report))
			worst = max(worst, api.ExitLeft)
		}
	}
	return exit.Told(worst)
}
