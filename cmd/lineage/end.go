package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

type endOptions struct {
	grace    time.Duration
	graceSet bool
	now, yes bool
	dryRun   bool
	plan     string // token of a plan
	timeout  time.Duration

	all, mine, kept bool
	allOrNone       bool // on many hosts
	branch          bool // a process with what it started, not a session
}

// chooses reports that the sessions are not named but chosen.
func (o *endOptions) chooses() bool { return o.all || o.mine }

func (o *endOptions) check(sessions int) error {
	switch {
	case o.branch && (o.chooses() || o.kept || sessions != 1):
		return exit.Usage("end: --branch takes one PID@START, and not --all, --mine or --kept")
	case o.all && o.mine:
		return exit.Usage("end: give only one of --all and --mine")
	case o.chooses() && sessions > 0:
		return exit.Usage("end: --all and --mine choose the sessions; name none")
	case o.chooses() && o.plan != "":
		return exit.Usage("end: --if-plan is for one SESSION, the plan's own")
	case o.kept && !o.chooses():
		return exit.Usage("end: --kept belongs to --all and --mine; a SESSION that is named is ended in any case")
	case !o.chooses() && sessions == 0:
		return exit.Usage(`end: SESSION is missing; see "lineage end --help"`)
	case o.dryRun && o.plan != "":
		return exit.Usage("end: --dry-run makes a plan, --if-plan carries one out; give only one of them")
	case o.plan != "" && sessions != 1:
		return exit.Usage("end: --if-plan is for one SESSION, the plan's own")
	case o.graceSet && o.now:
		return exit.Usage("end: --now means a grace of 0; give only one of --grace and --now")
	case o.grace < 0 || o.grace > api.MaxGrace:
		return exit.Usage("end: invalid --grace %v: must be 0 to %s", o.grace, "10m")
	case o.timeout < 0:
		return exit.Usage("end: invalid --timeout %v: must be 0 or more", o.timeout)
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

// flags are those of the end itself.
func (o *endOptions) flags(f *pflag.FlagSet) {
	f.DurationVar(&o.grace, "grace", 0, "`time` between SIGTERM and SIGKILL, at most 10m (default the session's)")
	f.BoolVar(&o.now, "now", false, "SIGKILL at once")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "how long to wait for dying processes after SIGKILL")
	f.BoolVar(&o.dryRun, "dry-run", false, "show what would be ended, and send nothing")
	f.StringVar(&o.plan, "if-plan", "", "end only if the plan with this `TOKEN`, of --dry-run, still holds")
	f.BoolVar(&o.branch, "branch", false, "end a process, named by PID@START, and what it started")
	f.BoolVar(&o.all, "all", false, "end every session that you may end")
	f.BoolVar(&o.mine, "mine", false, "end every session of your user")
	f.BoolVar(&o.kept, "kept", false, "with --all and --mine: kept sessions, too")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	f.BoolVar(&o.allOrNone, "all-or-none", false, "with -H: send nothing unless every host can be asked")
}

func (a *app) endCommand() *cobra.Command {
	var o endOptions
	cmd := &cobra.Command{
		Use:   "end SESSION...",
		Short: "End sessions, or a process with everything that it ever started",
		Long: `End sessions: SIGTERM to every member, SIGKILL when the grace is over, and
SIGKILL to every process that is born after that. Returns when the kernel
counts no live member, and reports how each one ended; exits with 6 if one is
left.

--dry-run sends nothing and shows which processes an end would signal and why,
what they hold, and what could not be killed. With --if-plan and the token that
it prints, the end fails, with nothing sent, if it would reach a process that
the plan does not name.

--branch ends one member of a session and every process that it ever started,
through dead ones too. These processes become a nested session, and that is
ended: no fork is missed, and the rest of the session lives on. A member may do
it inside its own session, but not to an ancestor of its own, to the root, or to
the owner of a session. A plan of a branch also covers later forks that run the
same command as a process that it names.

--all ends every live session that you may end (as root: of all users), --mine
only those of your user. Kept sessions, and sessions with a kept one in them,
are left alone unless --kept is given.

With -H the sessions of these names end on many hosts: a plan is made on each,
one question asked, and what came in after its plan is not hit. A host without
such a session has nothing to end. Exits with 6 if a host was not reached.

On a terminal the state is shown while it takes longer than a second; Ctrl-C
then kills at once. Elsewhere the first Ctrl-C prints the state, and the second
kills.`,
		Example: `  lineage end build                  # shows what will be ended, and asks
  lineage end build web --now --yes  # SIGKILL at once, without asking
  lineage end 4130@36995259200030 --branch --dry-run
  lineage end build -H web1,web2,@hosts --all-or-none`,
		Args:              argsCount(0, 1<<20, "SESSION"),
		ValidArgsFunction: a.completeSession("live"),
	}
	o.flags(cmd.Flags())
	format := formatFlag(cmd)
	remote := hostFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.graceSet = cmd.Flags().Changed("grace")
		if err := o.check(len(args)); err != nil {
			return err
		}
		ctx := cmd.Context()
		if err := o.checkHosts(*remote); err != nil {
			return err
		}
		if len(*remote) > 0 {
			return a.endOnHosts(ctx, *remote, o, args, format.value)
		}
		c, err := a.client(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		if o.chooses() {
			if args, err = a.choose(ctx, c, o); err != nil {
				return err
			}
			if len(args) == 0 {
				a.Say("end: no session to end")
				return a.Print(format.value, text.Receipts([]text.Receipt{}, true))
			}
		}
		switch {
		case o.branch:
			return a.endBranch(ctx, c, o, args[0], format.value)
		case o.dryRun:
			return a.dryRun(ctx, c, o, args, format.value)
		case !o.yes && !a.CanAsk():
			for _, t := range resolve(ctx, c, o, args) {
				if t.err != nil {
					return t.err // it matters more
				}
			}
			return errCannotAsk
		}
		return a.end(ctx, c, o, args, format.value)
	}
	return cmd
}

// choose gives the sessions that --all or --mine mean.
func (a *app) choose(ctx context.Context, c api.Client, o endOptions) ([]string, error) {
	list, err := c.Sessions(ctx, "live", "")
	if err != nil {
		return nil, err
	}
	uid := a.host.euid()
	ids, spared := ending.Chosen(list.Items, uid, o.all && uid == 0, o.kept)
	for _, why := range spared {
		a.Say("end: %s", why)
	}
	return ids, nil
}

// target is one session that is to end.
type target struct {
	word    string       // by which the daemon finds it
	session *api.Session // nil: not asked for yet
	report  *api.Report
	before  *time.Time // when it had ended, if that was before we asked for it
	err     error
}

// end ends what args name. One that cannot be ended does not keep the others
// alive; the worst of their exit codes counts.
func (a *app) end(ctx context.Context, c api.Client, o endOptions, args []string, format string) error {
	answered := a.sayIfSlow()
	asked := a.Now()
	targets := []*target{{word: args[0]}}
	// One session that need not be shown is ended before anything is asked: in a
	// storm each answer may take long.
	if !o.yes || len(args) > 1 || o.plan != "" {
		targets = resolve(ctx, c, o, args)
	}
	answered()
	if !o.yes {
		goOn, err := a.ask(ctx, c, targets, o)
		if err != nil {
			return err
		}
		if !goOn {
			return errNotConfirmed
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
	for _, t := range targets {
		if t.err == nil && t.report.Ended != nil && t.report.Ended.Before(asked) {
			t.before = t.report.Ended
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
	t := time.AfterFunc(slow, func() { a.Say("end: no answer from the daemon yet; still waiting, Ctrl-C gives up") })
	return func() { t.Stop() }
}

// resolve asks for the sessions that args name, each of them once. The beginning of an id
// is enough only if nothing is ended by it alone.
func resolve(ctx context.Context, c api.Client, o endOptions, args []string) []*target {
	var targets []*target
	seen := map[string]bool{}
	for _, arg := range args {
		s, err := c.Session(ctx, arg)
		if err == nil && s.ID != arg && s.Name != arg && !o.dryRun && o.plan == "" {
			s, err = nil, api.NewError(api.CodeNotFound, fmt.Sprintf("session %s: not found", arg), fmt.Sprintf("to end %s name it in full", s.ID))
		}
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
