package ending

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
)

// Timeout is the default wait for dying processes after SIGKILL.
const Timeout = 10 * time.Second

// Options say how something is ended: the flags of "lineage end".
type Options struct {
	Grace   *time.Duration // between SIGTERM and SIGKILL; nil: the session's
	Now     bool
	Yes     bool // do not ask
	DryRun  bool
	Plan    string        // the token of the plan that must still hold
	Timeout time.Duration // how long to wait after SIGKILL

	Branch bool   // a process with what it started, not a session
	Call   string // the id of a tool call: what it started and is alive

	AllOrNone bool // on many hosts
	MaxHosts  int  // on which sessions end
}

func (o *Options) Flags(f *pflag.FlagSet) {
	cli.Grace(f, &o.Grace, "the session's")
	f.BoolVar(&o.Now, "now", false, "SIGKILL at once")
	f.DurationVar(&o.Timeout, "timeout", Timeout, "how much `TIME` dying processes have after SIGKILL")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what would be ended, and send nothing")
	f.StringVar(&o.Plan, "if-plan", "", "end only if the plan with this `TOKEN` of --dry-run still holds; several with commas")
	f.BoolVar(&o.Branch, "branch", false, "end a process, named by PID@START or :PORT, and what it started")
	f.StringVar(&o.Call, "call", "", "end what the tool call with this `ID` has left, of the selected sessions")
	f.BoolVarP(&o.Yes, "yes", "y", false, "do not ask")
	f.IntVar(&o.MaxHosts, "max-hosts", hosts.MaxHosts, "end sessions on at most `N` hosts")
	f.BoolVar(&o.AllOrNone, "all-or-none", false,
		"with -H: send nothing unless every host can be asked")
}

// Check returns what is wrong with the flags, for what is selected.
func (o *Options) Check(sel *api.Selection, remote hosts.List) error {
	switch {
	case o.Branch && !sel.One():
		return cli.Usage("end: --branch takes one PID@START, and no flag that selects sessions")
	case o.Call != "" && o.Branch:
		return cli.Usage("end: give only one of --branch and --call")
	case o.Call == "" && !sel.Given():
		return cli.Usage(`end: SESSION is missing; see "lineage end --help"`)
	case o.DryRun && o.Plan != "":
		return cli.Usage("end: --dry-run makes a plan, --if-plan carries one out; give only one of them")
	case o.Grace != nil && o.Now:
		return cli.Usage("end: --now means a grace of 0; give only one of --grace and --now")
	case o.MaxHosts < 1:
		return cli.Usage("end: %w", cli.Invalid("--max-hosts", o.MaxHosts, "1 or more"))
	case o.Timeout < 0:
		return cli.Usage("end: %w", cli.Invalid("--timeout", o.Timeout, "0 or more"))
	case len(remote) == 0 && o.AllOrNone:
		return cli.Usage("end: --all-or-none belongs to -H")
	case len(remote) > 0 && (o.Branch || o.Call != "" || o.Plan != ""):
		return cli.Usage("end: --branch, --call and --if-plan are for this host, not with -H")
	case len(remote) > 0 && sel.Local:
		return cli.Usage("end: --mine and the names of users are this host's; with -H give --user UID")
	}
	return nil
}

// Command is the signed command for the flags, which takes few of them.
func (o *Options) Command(sel *api.Selection) (api.Command, error) {
	signable := Options{Grace: o.Grace, Now: o.Now, Yes: o.Yes, Plan: o.Plan,
		Timeout: o.Timeout, MaxHosts: o.MaxHosts}
	if *o != signable || sel.Filters() {
		return api.Command{}, cli.Usage(
			"end: --sign takes names, patterns, ids or --all, and of the other flags --grace, --now, --if-plan, --timeout, --max-hosts and --yes",
		)
	}
	if err := o.Check(sel, nil); err != nil {
		return api.Command{}, err
	}
	c := api.Command{Verb: api.VerbEnd, Sessions: sel.Words, All: sel.All,
		Plan: o.Plan, GraceMS: o.request().GraceMS}
	if o.Now {
		c.GraceMS = new(int64(0))
	}
	return c, nil
}

// CheckSaved returns what is wrong with the flags for a command that is saved.
func (o *Options) CheckSaved(sel *api.Selection) error {
	if sel.Given() || *o != (Options{Yes: o.Yes, Timeout: o.Timeout, MaxHosts: o.MaxHosts}) {
		return cli.Usage("end: the command in --from says what ends; of the other flags it takes --sign, --save, --timeout, --max-hosts and --yes")
	}
	return nil
}

func (o *Options) request() api.EndRequest {
	req := api.EndRequest{Now: o.Now, PlanToken: o.Plan, Call: o.Call}
	if o.Grace != nil {
		req.GraceMS = new(o.Grace.Milliseconds())
	}
	return req
}

// grace is the time between SIGTERM and SIGKILL that a session will have.
func (o *Options) grace(s *api.Session) time.Duration {
	switch {
	case o.Now:
		return 0
	case o.Grace != nil:
		return *o.Grace
	}
	return time.Duration(s.GraceSeconds * float64(time.Second))
}

// signals says what the processes of a session will get.
func (o *Options) signals(s *api.Session) string {
	if g := o.grace(s); g > 0 {
		return fmt.Sprintf("SIGTERM, and SIGKILL after %v", g)
	}
	return "SIGKILL"
}
