//go:build linux

package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
)

const (
	// reportWait is the time of one poll: the daemon answers as soon as the end is over.
	reportWait = 30 * time.Second
	// emptyWait is how long to wait for a session whose leftovers may stay to become
	// empty.
	emptyWait = 250 * time.Millisecond
	// endSlack is what an end may take beyond its grace: the daemon gives a
	// verdict 9 s after SIGKILL.
	endSlack = 30 * time.Second
)

// finish follows the end of the session, which the command's exit began in the kernel,
// and reports it. Meanwhile a signal that asks us to end means "now", and a second one:
// stop waiting. The error is that of tell.
func (r *runner) finish(ctx context.Context, l *link, j *job) error {
	grace := time.Duration(r.session.GraceSeconds * float64(time.Second))
	ctx, cancel := context.WithTimeout(ctx, grace+endSlack)
	defer cancel()

	shown := func() {}
	if r.Ending != nil && r.OnExit != OnExitReport {
		shown = r.Ending(r.session)
	}
	over := make(chan *api.Report, 1)
	go func() {
		switch {
		case r.OnExit == OnExitReport:
			over <- r.stay(ctx, l, j.pid)
		case r.Leaks.Fail:
			over <- r.leaks.look(ctx, r, l)
		default:
			over <- r.follow(ctx, l)
		}
	}()
	hurried := false
	hurry := func() {
		hurried = true
		// If this fails, the session ends after the grace, and the receipt says so.
		go func() { _ = r.end(ctx, l, true) }()
	}
	if r.timed.killed() {
		hurry()
	}
	for {
		select {
		case rep := <-over:
			shown()
			j.reap() // the last to die
			if r.Leaks.Fail {
				r.leaks.judge(rep)
			}
			r.session.EndReason = rep.EndReason
			if rep.Root == nil && j.status.Signaled() {
				rep.Root = &api.Death{Process: api.Process{Ref: api.Ref{PID: j.pid}, Comm: r.command(),
					Signal: unix.SignalName(j.status.Signal())}}
			}
			return r.tell(rep, hurried, j.sigs.to)
		case <-j.sigs.children:
			j.reap()
		case s := <-j.sigs.to:
			sig := s.(unix.Signal)
			switch {
			case sig == unix.SIGTSTP:
				stopLike(sig)
			case !endsRun(sig):
			case hurried || r.OnExit == OnExitReport:
				cancel()
			default:
				hurry()
			}
		}
	}
}

func (r *runner) limited() bool {
	return r.session != nil && slices.Contains([]string{"max_lifetime",
		"max_processes", "max_rss", "idle"},
		r.session.EndReason)
}

// insisted ends the session after a repeated SIGTERM to a command that does not exit;
// from the third one on without grace.
func (r *runner) insisted(ctx context.Context, l *link, terms int) {
	ctx, cancel := context.WithTimeout(ctx, endSlack)
	defer cancel()
	if err := r.end(ctx, l, terms > 2); err != nil {
		r.say("run: cannot end session %s: %v", r.session.ID, err)
	}
}

func (r *runner) end(ctx context.Context, l *link, now bool) error {
	_, err := ask(ctx, l, func(c api.Client) (*api.Report, error) {
		return c.End(ctx, r.session.ID, api.EndRequest{Now: now})
	})
	return err
}

// follow returns the receipt when the session is over.
func (r *runner) follow(ctx context.Context, l *link) *api.Report {
	for {
		rep, err := l.report(ctx, r.session.ID, reportWait)
		if err != nil {
			return r.unknown(err)
		}
		if rep.Verdict != "" {
			return rep
		}
	}
}

// stay returns the receipt of a session that outlives its root: the live processes.
func (r *runner) stay(ctx context.Context, l *link, root int) *api.Report {
	rep, err := l.report(ctx, r.session.ID, emptyWait)
	if err != nil {
		return r.unknown(err)
	}
	if rep.Verdict != "" {
		return rep
	}
	tree, err := ask(ctx, l, func(c api.Client) (*api.Tree, error) {
		return c.Tree(ctx, r.session.ID, "ancestors")
	})
	if err != nil {
		return r.unknown(err)
	}
	rep.Processes, rep.Left, rep.Verdict = nil, 0, api.VerdictClean
	for _, n := range tree.Nodes {
		if n.State != api.StateLive || n.PID == root {
			continue
		}
		rep.Processes = append(rep.Processes, api.Outcome{Ref: n.Ref, Comm: n.Comm, Argv: n.Argv,
			Outcome: api.OutcomeLeft, Why: "--on-exit " + OnExitReport, Leftover: true})
		rep.Left++
		rep.Verdict = api.VerdictLeft
	}
	return rep
}

func (l *link) report(ctx context.Context, id string, wait time.Duration) (*api.Report, error) {
	return ask(ctx, l, func(c api.Client) (*api.Report, error) { return c.Report(ctx, id, wait) })
}

// unknown is the receipt if the daemon gave none. The kernel still ends the session;
// only the proof is missing.
func (r *runner) unknown(err error) *api.Report {
	why := fmt.Sprintf("no answer from the daemon: %v", err)
	switch refused, ok := errors.AsType[*api.Error](err); {
	case ok:
		why = refused.Error()
	case errors.Is(err, context.Canceled):
		why = "the wait was interrupted"
	case errors.Is(err, context.DeadlineExceeded):
		why = "the daemon gave no verdict in time"
	}
	return &api.Report{
		Head:       api.NewHead("report"),
		Session:    r.session.ID,
		Name:       r.session.Name,
		State:      r.session.State,
		Verdict:    api.VerdictUnknown,
		VerdictWhy: why,
		Processes:  []api.Outcome{},
	}
}
