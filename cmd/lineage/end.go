package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

type endOptions struct {
	grace    time.Duration
	graceSet bool
	now, yes bool
	dryRun   bool
	plan     string // token of a plan
	timeout  time.Duration
}

func (o *endOptions) check(sessions int) error {
	switch {
	case o.dryRun && o.plan != "":
		return usage("end: --dry-run makes a plan, --if-plan carries one out; give only one of them")
	case o.plan != "" && sessions != 1:
		return usage("end: --if-plan is for one SESSION, the plan's own")
	case o.graceSet && o.now:
		return usage("end: --now means a grace of 0; give only one of --grace and --now")
	case o.grace < 0 || o.grace > api.MaxGrace:
		return usage("end: --grace %v: want 0 to %s", o.grace, "10m")
	case o.timeout < 0:
		return usage("end: --timeout %v: want 0 or more", o.timeout)
	}
	return nil
}

func (o *endOptions) request() api.EndRequest {
	req := api.EndRequest{Now: o.now, PlanToken: o.plan}
	if o.graceSet {
		ms := o.grace.Milliseconds()
		req.GraceMS = &ms
	}
	return req
}

func (a *app) endCommand() *cobra.Command {
	var o endOptions
	cmd := &cobra.Command{
		Use:   "end SESSION...",
		Short: "End sessions: everything that they ever started",
		Long: `End sessions: SIGTERM to every member, then SIGKILL when the grace is over, and
SIGKILL to whatever is born after that. Returns when the kernel counts none of
them alive, and says how each one ended; exits with 6 if one is left.

--dry-run sends nothing and shows which processes an end would signal, why each
of them is one, what it holds, and what could not be killed. Its token, given to
--if-plan, makes the end fail, with nothing sent, if it would meet a process
that the plan does not name.

The first Ctrl-C says how far it is, the second is --now.`,
		Args:              argsCount(1, 1<<20, "SESSION"),
		ValidArgsFunction: a.completeSession("live"),
	}
	f := cmd.Flags()
	f.DurationVar(&o.grace, "grace", 0, "time between SIGTERM and SIGKILL, at most 10m (default the session's)")
	f.BoolVar(&o.now, "now", false, "SIGKILL at once")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "how long to wait for the dying after SIGKILL")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be ended, and send nothing")
	f.StringVar(&o.plan, "if-plan", "", "end only if the plan with this `TOKEN`, of --dry-run, still holds")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.graceSet = cmd.Flags().Changed("grace")
		if err := o.check(len(args)); err != nil {
			return err
		}
		if !o.dryRun && !o.yes && !a.canAsk() {
			return usage("end: this is no terminal to ask on; add --yes to end without asking")
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		if o.dryRun {
			return a.dryRun(cmd.Context(), c, o, args, format.value)
		}
		return a.end(cmd.Context(), c, o, args, format.value)
	}
	return cmd
}

// canAsk tells whether somebody is there to read a question and answer it.
func (a *app) canAsk() bool {
	_, in := terminal(a.stdin)
	_, out := terminal(a.stderr)
	return in && out
}

// target is one session that is to end.
type target struct {
	word    string       // by which the daemon finds it
	session *api.Session // nil: not asked for yet
	report  *api.Report
	err     error
}

// end ends what args name. One that cannot be ended does not keep the others
// alive; the worst of their exit codes counts.
func (a *app) end(ctx context.Context, c api.Client, o endOptions, args []string, format string) error {
	answered := a.sayIfSlow()
	targets := []*target{{word: args[0]}}
	// One session that need not be shown is ended before anything is asked: in a
	// storm each answer may take long.
	if !o.yes || len(args) > 1 {
		targets = resolve(ctx, c, args)
	}
	answered()
	if !o.yes {
		goOn, err := a.ask(ctx, c, targets, o)
		if err != nil {
			return err
		}
		if !goOn {
			return &exitError{api.ExitFailed, fmt.Errorf("end: not confirmed, nothing was sent")}
		}
	}
	answered = a.sayIfSlow()
	// All are told before one is waited for: their graces run together.
	for _, t := range targets {
		if t.err == nil {
			t.report, t.err = c.End(ctx, t.word, o.request())
			t.err = asEnd(t.err)
		}
	}
	answered()
	a.wait(ctx, c, o, targets)
	return a.report(targets, format)
}

// slow is how long the daemon may take before the caller gets a word.
const slow = 3 * time.Second

// sayIfSlow says that the daemon has not answered, unless answered is called
// soon.
func (a *app) sayIfSlow() (answered func()) {
	t := time.AfterFunc(slow, func() { a.say("end: no answer from the daemon yet; still waiting, Ctrl-C gives up") })
	return func() { t.Stop() }
}

// resolve asks for the sessions that args name, each of them once.
func resolve(ctx context.Context, c api.Client, args []string) []*target {
	var targets []*target
	seen := map[string]bool{}
	for _, arg := range args {
		s, err := c.Session(ctx, arg)
		if err == nil && seen[s.ID] {
			continue
		}
		t := &target{session: s, err: asEnd(err)}
		if err == nil {
			seen[s.ID] = true
			t.word = s.ID
		}
		targets = append(targets, t)
	}
	return targets
}

// asEnd names what the caller asked for in a refusal to read, which end has to
// do first.
func asEnd(err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != api.CodeDenied {
		return err
	}
	what, ok := strings.CutPrefix(e.Message, "read ")
	if !ok {
		return err
	}
	return api.NewError(e.Code, "end "+what, e.Hint)
}

// listed bounds the processes that a question names, by session.
const listed = 20

// ask shows what will die and asks for a yes. There is nothing to ask when
// all is over already.
func (a *app) ask(ctx context.Context, c api.Client, targets []*target, o endOptions) (bool, error) {
	p := a.page(a.stderr, false)
	sessions := 0
	for _, t := range targets {
		if t.err != nil || t.session.State == api.StateEnded {
			continue
		}
		sessions++
		p.Line("session %s: %s will get %s", display.Text(strings.TrimSpace(t.session.ID+" "+t.session.Name)),
			text.Count(t.session.Live, "process", "processes"), signals(t.session, o))
		tree, err := c.Tree(ctx, t.session.ID, "ancestors")
		if err != nil {
			p.Line("  (not listed: %s)", display.Text(err.Error()))
			continue
		}
		shown := 0
		for i := range tree.Nodes {
			n := &tree.Nodes[i]
			if n.State != api.StateLive {
				continue
			}
			if shown++; shown <= listed {
				p.Line("  %d %s", n.PID, text.Fit(p.Command(&n.Process), max(p.Width-12, 40)))
			}
		}
		if shown > listed {
			p.Line("  … and %d more", shown-listed)
		}
	}
	if sessions == 0 {
		return true, nil
	}
	what := "it"
	if sessions > 1 {
		what = fmt.Sprintf("these %d sessions", sessions)
	}
	p.Print("End %s? [y/N] ", what)
	if err := p.Flush(); err != nil {
		return false, err
	}
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.stderr)
		return false, nil
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

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

// graceOf is the time between SIGTERM and SIGKILL that s will have.
func graceOf(s *api.Session, o endOptions) time.Duration {
	switch {
	case o.now:
		return 0
	case o.graceSet:
		return o.grace
	}
	return time.Duration(s.GraceSeconds * float64(time.Second))
}

func signals(s *api.Session, o endOptions) string {
	if g := graceOf(s, o); g > 0 {
		return fmt.Sprintf("SIGTERM, and SIGKILL after %v", g)
	}
	return "SIGKILL"
}

// wait returns when every target has a verdict, an error or no time left.
func (a *app) wait(ctx context.Context, c api.Client, o endOptions, targets []*target) {
	interrupts, stop := a.interrupts()
	defer stop()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	hurried, hurry := context.WithCancel(ctx)
	defer hurry()
	over := make(chan struct{})
	var mu sync.Mutex // guards the targets' reports and errors
	var all sync.WaitGroup
	for _, t := range targets {
		if t.err != nil || t.report.Verdict != "" {
			continue
		}
		all.Go(func() {
			w := waiting{c: c, id: t.report.Session, hurried: hurried, timeout: o.timeout}
			var report *api.Report
			grace, err := t.grace(ctx, c, o)
			if err == nil {
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
	for n := 1; ; n++ {
		select {
		case <-over:
			return
		case s := <-interrupts:
			if s == syscall.SIGTERM {
				leave(errLeft)
				continue
			}
			if n > 1 {
				a.say("end: killing now")
				hurry()
				continue
			}
			mu.Lock()
			going := 0
			for _, t := range targets {
				if t.err == nil && t.report.Verdict == "" {
					going++
				}
			}
			mu.Unlock()
			a.say("end: still ending %s; Ctrl-C again kills now", text.Count(going, "session", "sessions"))
		}
	}
}

// errLeft is the end of a wait by SIGTERM.
var errLeft = errors.New("told to terminate; the end goes on without this command")

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
