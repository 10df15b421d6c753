package document

import (
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Session is what a daemon knows of a session, without the graph. Times are boottime
// nanoseconds.
type Session struct {
	Info   tracer.SessionInfo
	State  api.SessionState   // as users see it
	Family []tracer.SessionID // the session and those nested in it
	For    tracer.SessionID   // the session whose work this one holds, 0: none
	Kept   *Kept              // nil: it is not a kept session
	Work   Work
	Shared string // the rule by which it holds a server of several sessions

	Level    int
	Policy   Applied
	Degraded []string

	Joined  int // members that ran when they were entered, without the root
	Used    Used
	Zombies int
	Ports   []int

	LeftOver  bool   // its members are leftovers
	Deadline  uint64 // of its end, 0: none runs
	Paused    uint64 // since when it is, or a session around it, 0: neither
	Continued Continued
	Ended     uint64      // 0: it has not ended
	Verdict   api.Verdict // once it has ended
}

// Continued is what runs of a paused session and those nested in it.
type Continued struct {
	Running int
	By      *lineage.Signal // the last SIGCONT of another process; nil: not known
}

type Applied struct {
	Mode     string
	Signals  api.SignalFate
	WouldEnd []string // the causes for which it would end it, were it enforced
}

type Used struct {
	Limits  *api.Limits  // nil: it has no cgroup with limits
	Account *api.Account // nil: it has no cgroup
	CPU     time.Duration
	RSS     uint64
	// Idle is the least of what the features know: for how long no member, those of nested sessions
	// included, did anything that they notice. 0: one does something, or that is not known.
	Idle  time.Duration
	Event uint64 // boottime of the last one; 0: none since the daemon started
}

// Kept is why a session outlives the one that its processes came from.
type Kept struct {
	Reason string
	By     *api.Caller // the caller that asked for it
	Rule   string      // the rule that asked for it
}

func (e Encoder) Session(s *Session, r Reader) api.Session {
	info := &s.Info
	d := api.Session{
		ID: info.ID.String(), Name: info.Name, UID: int(info.UID), State: s.State,
		Live: int(max(info.Live, 0)), Peak: int(info.Peak), Forks: int(info.Forks),
		Joined: s.Joined, Zombies: s.Zombies,
		CPUSeconds: seconds(uint64(s.Used.CPU)),
		Started:    e.Clock.Wall(info.Created), EndReason: info.Cause.String(), Kept: info.Kept,
		GraceSeconds: info.Grace.Seconds(), Level: s.Level, Mode: s.Policy.Mode,
		Evidence: tracer.EvidenceRoot.String(), Degraded: s.Degraded,
		Delegated: e.Delegated(&s.Work, r), Shared: s.Shared, Signals: s.Policy.Signals,
		Limits: s.Used.Limits, Account: s.Used.Account,
	}
	switch info.Rule {
	case policy.AgentRule:
		d.Rule = info.Name
	case policy.ContainerRule:
		d.ContainerRule = info.Name
	}
	if s.For != 0 && info.Rule == 0 {
		d.Evidence = tracer.EvidenceAdopted.String()
	}
	if s.Kept != nil {
		d.Reason, d.KeptBy, d.KeepRule = s.Kept.Reason, s.Kept.By, s.Kept.Rule
	}
	if info.Kept && info.Expires != 0 {
		d.Until = e.Clock.Wall(info.Expires)
	}
	d.Owner, d.Parent, d.DelegatedBy = RefOrNil(info.Owner), word(info.Parent), word(s.For)
	if n, ok := e.Graph.Node(info.Root); ok {
		d.Root = new(e.Process(&n, r))
		d.Container = d.Root.Container
		if first := begun(info, n.Commands); first != nil && !slices.Equal(first, n.Argv) {
			d.Root.FirstArgv = r.Argv(n.UID, first)
		}
	} else {
		d.Root = &api.Process{Ref: Ref(info.Root)}
	}
	if s.Ended != 0 {
		d.Ended, d.Verdict = e.Clock.Wall(s.Ended), s.Verdict
		return d
	}
	if info.Live > 0 || info.Dying > 0 { // else nothing of what was last seen is still held
		d.Ports, d.RSSBytes = s.Ports, s.Used.RSS
	}
	for _, id := range s.Family {
		n := e.Graph.Count(id)
		d.Orphans, d.CPUs = d.Orphans+n.Orphans, d.CPUs+float64(n.Load)/1000
	}
	if s.LeftOver {
		d.Leftovers = d.Live
	}
	d.Deadline, d.Paused = e.Clock.Wall(s.Deadline), e.Clock.Wall(s.Paused)
	if c := s.Continued; c.Running > 0 {
		d.Continued = &api.Continued{Running: c.Running, By: Sender(e.Clock, c.By)}
	}
	d.IdleSeconds, d.LastEvent = s.Used.Idle.Seconds(), e.Clock.Wall(s.Used.Event)
	return d
}

// begun is the command line with which the root began its session; nil if that is not known. An owner's session begins
// with the next program that the root executes, any other with the one that it runs then. A shim is never the command.
func begun(info *tracer.SessionInfo, ran []lineage.Command) []string {
	shim := func(c lineage.Command) bool { return len(c.Argv) > 1 && c.Argv[1] == lineage.Shim }
	i := slices.IndexFunc(ran, func(c lineage.Command) bool { return c.Time >= info.Created && !shim(c) })
	if i < 0 {
		i = len(ran)
	}
	if i > 0 && (i == len(ran) || info.Owner.PID == 0) && !shim(ran[i-1]) {
		i--
	}
	if i == len(ran) {
		return nil
	}
	return ran[i].Argv
}

// Death is how the root of a session exited, and what it may come from; nil: it lives, or that is not known. lost: events
// are missing since the session began.
func (e Encoder) Death(s *Session, lost bool) *api.Death {
	root, ok := e.Graph.Node(s.Info.Root)
	if !ok || !root.StatusKnown {
		return nil
	}
	d := &api.Death{Process: e.dead(&root)}
	if d.ExitCode == nil {
		return d
	}
	sig := *d.ExitCode - 128
	after, found, known := e.Graph.LastKilled(root.Exited, func(of uint8, from *lineage.Signal) bool {
		if sig > 0 && sig <= 64 {
			return int(of) == sig
		}
		return from != nil && (from.Sender == lineage.ByOOM || *d.ExitCode != 0 &&
			from.Sender.ByAnother() && !slices.Contains(s.Family, from.Session))
	}, s.Family...)
	if found {
		d.After = new(e.dead(&after))
	}
	d.Whole = *d.ExitCode != 0 && !lost && known >= int(s.Info.Forks)+1+s.Joined
	return d
}

// dead is a process without what only its user may read.
func (e Encoder) dead(n *lineage.Node) api.Process {
	p := api.Process{Ref: Ref(n.ID), Comm: n.Comm.String(), Creator: RefOrNil(n.Creator),
		Session: word(n.Session),
		Exited:  e.Clock.Wall(n.Exited)}
	e.end(&p, n)
	return p
}

// Outcomes adds what the graph remembers to the processes that a receipt names.
func (e Encoder) Outcomes(d *api.Report) {
	for i := range d.Processes {
		p := &d.Processes[i]
		id := ID(p.Ref)
		p.Container = Container(e.Graph.Container(id))
		if p.Outcome == api.OutcomeLeft { // what a receipt has left out of the dead had no room in it
			if n, ok := e.Graph.Node(id); ok {
				p.Argv = n.Argv
			}
		}
	}
}
