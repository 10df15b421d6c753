package ending

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/flags"
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

	All, Mine bool
	Left      bool          // the sessions whose root is gone
	Where     Where         // the sessions whose root is in these containers
	Idle      time.Duration // the sessions that were idle for so long; 0: not by that
	Branch    bool          // a process with what it started, not a session
	Call      string        // the id of a tool call: what it started and is alive
	Many      Many
}

// Many are the flags for many hosts.
type Many struct {
	AllOrNone bool
	Most      int // hosts on which sessions end
}

// Flags adds the flags to a set.
func (o *Options) Flags(f *pflag.FlagSet) {
	flags.Grace(f, &o.Grace, "the session's")
	f.BoolVar(&o.Now, "now", false, "SIGKILL at once")
	f.DurationVar(&o.Timeout, "timeout", Timeout, "how much `TIME` dying processes have after SIGKILL")
	f.BoolVar(&o.DryRun, "dry-run", false, "show what would be ended, and send nothing")
	f.StringVar(&o.Plan, "if-plan", "", "end only if the plan with this `TOKEN`, of --dry-run, still holds")
	f.BoolVar(&o.Branch, "branch", false, "end a process, named by PID@START, and what it started")
	f.StringVar(&o.Call, "call", "", "end what the tool call with this `ID` has left, of SESSION if one is named")
	f.BoolVar(&o.All, "all", false, "end every session that you may end")
	f.BoolVar(&o.Mine, "mine", false, "end every session of your user")
	f.BoolVar(&o.Left, "left", false, "end what is left over: sessions whose root is gone")
	IdleFlag(f, &o.Idle, "end every session that was idle for this `TIME`")
	o.Where.Flags(f, "end every session whose root is")
	f.BoolVarP(&o.Yes, "yes", "y", false, "do not ask")
	o.HostsFlag(f)
	f.BoolVar(&o.Many.AllOrNone, "all-or-none", false, "with -H: send nothing unless every host can be asked")
}

// HostsFlag adds the flag that bounds the number of hosts.
func (o *Options) HostsFlag(f *pflag.FlagSet) {
	f.IntVar(&o.Many.Most, "max-hosts", hosts.MaxHosts, "end sessions on at most `N` hosts")
}

// IdleFlag adds the flag that selects idle sessions.
func IdleFlag(f *pflag.FlagSet, idle *time.Duration, usage string) {
	f.Func("idle", usage, func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return errors.New(exit.ADuration + ", above 0")
		}
		*idle = d
		return nil
	})
}

// chooses reports whether flags select the sessions, not names.
func (o *Options) chooses() bool { return o.All || o.Mine || o.Left || o.Idle > 0 || o.Where.Given() }

// Check returns what is wrong with the flags, for that number of named sessions.
func (o *Options) Check(sessions int, remote hosts.List) error {
	switch {
	case o.Branch && (o.chooses() || sessions != 1):
		return exit.Usage("end: --branch takes one PID@START, and not --all, --mine, --left, --idle, --container or --pod")
	case o.Call != "" && (o.Branch || o.chooses() || sessions > 1):
		return exit.Usage("end: --call takes at most one SESSION, and not --branch, --all, --mine, --left or --idle")
	case several(o.All, o.Mine, o.Left, o.Idle > 0, o.Where.Given()):
		return exit.Usage("end: give only one of --all, --mine, --left, --idle and --container or --pod")
	case o.chooses() && !o.Left && sessions > 0:
		return exit.Usage("end: --all, --mine, --idle, --container and --pod choose the sessions; name none")
	case o.chooses() && o.Plan != "":
		return exit.Usage("end: --if-plan is for one SESSION, the plan's own")
	case !o.chooses() && o.Call == "" && sessions == 0:
		return exit.Usage(`end: SESSION is missing; see "lineage end --help"`)
	case o.DryRun && o.Plan != "":
		return exit.Usage("end: --dry-run makes a plan, --if-plan carries one out; give only one of them")
	case o.Plan != "" && o.Call == "" && sessions != 1:
		return exit.Usage("end: --if-plan is for one SESSION, the plan's own")
	case o.Grace != nil && o.Now:
		return exit.Usage("end: --now means a grace of 0; give only one of --grace and --now")
	case o.Many.Most < 1:
		return exit.Usage("end: %w", exit.Invalid("--max-hosts", o.Many.Most, "1 or more"))
	case o.Timeout < 0:
		return exit.Usage("end: %w", exit.Invalid("--timeout", o.Timeout, "0 or more"))
	}
	return o.checkHosts(remote)
}

// Command is the signed command for the flags, which takes few of them.
func (o *Options) Command(words []string) (api.Command, error) {
	signable := Options{Grace: o.Grace, Now: o.Now, Yes: o.Yes, Plan: o.Plan, Timeout: o.Timeout, All: o.All, Many: Many{Most: o.Many.Most}}
	if *o != signable {
		return api.Command{}, exit.Usage("end: --sign takes SESSION or --all, and of the other flags --grace, --now, --if-plan, --timeout, --max-hosts and --yes")
	}
	if err := o.Check(len(words), nil); err != nil {
		return api.Command{}, err
	}
	c := api.Command{Verb: api.VerbEnd, Sessions: words, All: o.All, Plan: o.Plan}
	switch {
	case o.Now:
		c.GraceMS = new(int64(0))
	case o.Grace != nil:
		c.GraceMS = new(o.Grace.Milliseconds())
	}
	return c, nil
}

// CheckSaved returns what is wrong with the flags for a command that is saved.
func (o *Options) CheckSaved(words int) error {
	if words > 0 || *o != (Options{Yes: o.Yes, Timeout: o.Timeout, Many: Many{Most: o.Many.Most}}) {
		return exit.Usage("end: the command in --from says what ends; of the other flags it takes --sign, --save, --timeout, --max-hosts and --yes")
	}
	return nil
}

// several reports whether more than one is true.
func several(flags ...bool) bool {
	n := 0
	for _, set := range flags {
		if set {
			n++
		}
	}
	return n > 1
}

// checkHosts refuses flags that make no sense on many hosts.
func (o *Options) checkHosts(remote hosts.List) error {
	switch {
	case len(remote) == 0 && o.Many.AllOrNone:
		return exit.Usage("end: --all-or-none belongs to -H")
	case len(remote) > 0 && o.chooses():
		return exit.Usage("end: --all, --mine, --left, --idle, --container and --pod are for this host; with -H name the sessions")
	case len(remote) > 0 && (o.Branch || o.Call != ""):
		return exit.Usage("end: --branch and --call are for this host, not with -H")
	case len(remote) > 0 && o.Plan != "":
		return exit.Usage("end: --if-plan is for this host; -H makes a plan on each host, and ends under it")
	}
	return nil
}

func (o *Options) request() api.EndRequest {
	req := api.EndRequest{Now: o.Now, PlanToken: o.Plan, Call: o.Call}
	if o.Grace != nil {
		ms := o.Grace.Milliseconds()
		req.GraceMS = &ms
	}
	return req
}

// activity says what is known about the use of a session that ends because it is idle.
func (o *Options) activity(s *api.Session, now time.Time) string {
	if o.Idle == 0 {
		return ""
	}
	last := "no event since the daemon started"
	if s.LastEvent != nil {
		last = "last event " + display.Age(now.Sub(*s.LastEvent)) + " ago"
	}
	return fmt.Sprintf("; idle for %s, %s of CPU so far, %s", display.Age(time.Duration(s.IdleSeconds*float64(time.Second))), display.CPU(s.CPUSeconds), last)
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
