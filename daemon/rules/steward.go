//go:build linux

package rules

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Steward applies the policy in force to sessions: it gives the sessions of agents
// their terms, dissolves those of lookalikes, keeps what a rule keeps, and ends what is
// over a limit.
type Steward struct {
	o     Options
	began uint64 // boottime

	unjudged chan tracer.SessionID    // opened by an exec, not judged yet
	tries    map[tracer.SessionID]int // to find the container, of what is unjudged; of the goroutine that judges
	execs    chan tracer.Identity     // members that have execed, for the keep rules
	keeping  atomic.Bool              // there are keep rules
	joins    joins
	arming   sync.Mutex

	sessions map[tracer.SessionID]*ruledSession // of the registry's goroutine
}

type Options struct {
	registry.Ground
	Rules      *Policy
	Enforcer   *enforcer.Enforcer
	Containers *lookup.ContainerFinder // finds the containers of processes
	Audit      func(access.AuditRecord)
	// Limit has the kernel hold a session to limits; nil: nothing does.
	Limit func(tracer.SessionID, tracer.Identity, *api.Limits) error
}

// New makes a steward; attach its hooks.
func New(o Options) *Steward {
	return &Steward{
		o: o, began: o.Clock.Boottime(),
		unjudged: make(chan tracer.SessionID, 4096), execs: make(chan tracer.Identity, 4096),
		sessions: make(map[tracer.SessionID]*ruledSession), tries: make(map[tracer.SessionID]int),
	}
}

// SetClient notes the client that waits for the command in a session; zero: none does.
func (s *Steward) SetClient(v registry.View, command tracer.SessionID, client tracer.Identity) {
	if v.Session(command) != nil {
		s.of(command).client = client
	}
}

// Arm has the kernel know the clients with which commands end. Else only the daemon ends them.
func (s *Steward) Arm() {
	s.arming.Lock() // the kernel gets what is true last
	defer s.arming.Unlock()
	p, all := s.o.Rules.Policy(), make(map[tracer.Identity]tracer.SessionID)
	err := s.o.Registry.Read(func(v registry.View) {
		for x := range v.Sessions() {
			client := s.of(x.ID()).client
			if client.PID != 0 && x.Active() && EndsWithClient(p, x.Info()) &&
				s.o.Rules.Enforced(x.Info().UID) {
				all[client] = x.ID()
			}
		}
	})
	if err != nil {
		return
	}
	system.Failure(s.o.Log, s.o.Kernel.SetClients(all)).Msg("commands in containers do not end with their clients without the daemon")
}

// WantJoins has the kernel look for commands in containers although no rule wants them, or no longer.
func (s *Steward) WantJoins(on bool) { s.joins.set(s.o.Kernel, func(j *joins) { j.wanted = on }) }

// Release dissolves a session whose root was put into a container.
func (s *Steward) Release(info tracer.SessionInfo, why string) { joined{s, info}.letGo(why) }

// ContainerRule returns the rule for a process's container, nil if none matches, and why none can.
func (s *Steward) ContainerRule(p *policy.Policy, pid uint32) (*policy.Container, error) {
	if len(p.Containers) == 0 {
		return nil, nil
	}
	in, err := s.o.Containers.Look(pid)
	if err != nil || in.Container == nil {
		return nil, err
	}
	return ruleFor(p, in), nil
}

// Unread says to which containers no rule applies because their record cannot be read.
func (s *Steward) Unread() []string {
	if len(s.o.Rules.Policy().Containers) == 0 {
		return nil
	}
	return s.o.Containers.Unread()
}

// Record adds what a rule or a broker decided about a session, and one of its processes unless that
// is zero, to the audit log.
func (s *Steward) Record(verb, decision, reason string, id tracer.SessionID, p tracer.Identity) {
	s.o.Audit(access.AuditRecord{
		Time: time.Now().UTC(), Verb: verb, Decision: decision, Reason: reason, Mode: s.o.Rules.Mode(),
		Target: &access.AuditTarget{Session: id.String(), PID: int(p.PID), StartNS: api.U64(p.Start)},
	})
}

// Shared is the rule by which a session holds a server of several sessions, "" for any
// other session.
func (s *Steward) Shared(_ registry.View, id tracer.SessionID) string { return s.of(id).shared }

// SetShared restores it: it is remembered in one part with what attribution knows of the session.
func (s *Steward) SetShared(_ registry.View, id tracer.SessionID, rule string) {
	s.of(id).shared = rule
}

type ruledSession struct {
	kept     *Kept    // why it is kept, if it is
	shared   string   // the rule by which it holds a server of several sessions
	wouldEnd []string // causes for which the policy would end it, were it enforced
	budget   enforcer.Budget
	client   tracer.Identity // that waits for its command, if it was put into a container
}

func (s *Steward) of(id tracer.SessionID) *ruledSession { return registry.Known(s.sessions, id) }

func (s *Steward) Hooks() *registry.Hooks {
	return &registry.Hooks{
		Execed: s.execed,
		RootDied: func(v registry.View, x *registry.Session) {
			s.spareLeftovers(v, x)
			s.Judge(x.Info()) // one that a brief command has left is not judged yet
		},
		Opened: func(_ registry.View, x *registry.Session) { s.Judge(x.Info()) },
		Concluding: func(_ registry.View, x *registry.Session, _ *api.Report) (wait bool) {
			if wait = unasked(x.Info()); wait {
				s.Judge(x.Info())
			}
			return wait
		},
		Closed:     func(_ registry.View, x *registry.Session) { s.countRuled(x) },
		Forgotten:  func(_ registry.View, x *registry.Session) { delete(s.sessions, x.ID()) },
		Sampled:    s.sampled,
		Walking:    s.walking,
		Describe:   s.describe,
		Persistent: s,
	}
}

// Origin is the session from which the members of a session were kept, 0: none.
func (s *Steward) Origin(_ registry.View, x *registry.Session) tracer.SessionID {
	if its := s.sessions[x.ID()]; its != nil && its.kept != nil {
		return its.kept.From
	}
	return 0
}

func (s *Steward) execed(v registry.View, x *registry.Session, ev *tracer.Event) {
	if s.keeping.Load() && !x.Info().Kept && !system.Offer(s.execs, ev.Process) {
		v.Degrade("keep rules were not applied to every program: too many at once")
	}
}

// sampled asks again about the agents' sessions that are not judged yet, and ends those
// over a limit.
func (s *Steward) sampled(v registry.View, _ *registry.Look) (after func()) {
	for x := range v.Sessions() {
		s.Judge(x.Info())
	}
	over := s.overBudget(v, s.o.Rules.Policy())
	return func() {
		for _, x := range over {
			s.EndOver(x)
		}
	}
}

func (s *Steward) describe(v registry.View, x *registry.Session, d *document.Session) {
	its := s.of(x.ID())
	used := usageOf(v, x)
	d.Used.RSS = used.RSS // as max_rss counts it
	d.Used.Idle = min(d.Used.Idle, its.budget.Idle(used, s.o.Clock.Monotonic(),
		s.o.Rules.Policy().Defaults.IdleCPU.Std()))
	d.Shared, d.Policy = its.shared, document.Applied{Mode: s.o.Rules.ModeOf(x.Info().UID),
		Signals: s.signals(v, x), WouldEnd: its.wouldEnd}
	if its.kept != nil {
		d.Kept = &document.Kept{Reason: its.kept.Reason, By: its.kept.By, Rule: its.kept.Rule}
	}
}

func (s *Steward) Remember(_ registry.View, x *registry.Session) []registry.Part {
	its := s.of(x.ID())
	return []registry.Part{{Name: "would_end", Value: its.wouldEnd}, {Name: "kept", Value: its.kept}}
}

func (s *Steward) Restore(_ registry.View, x *registry.Session, was registry.Parts) error {
	its := s.of(x.ID())
	return errors.Join(was.Decode("would_end", &its.wouldEnd), was.Decode("kept", &its.kept))
}

// Reload reads the policy file as it is now. If it is refused, nothing changes.
func (s *Steward) Reload() error {
	if err := s.o.Registry.Read(func(registry.View) {}); err != nil { // earlier events count under the earlier policy
		return err
	}
	if err := s.o.Rules.reload(s.CarryOut); err != nil {
		s.o.Log.Error().Err(err).Msg("policy not applied, the previous one stays in force")
		return err
	}
	s.Apply()
	d := s.o.Rules.Document()
	s.o.Log.Info().Str(system.KeyFile, d.File).Str(system.KeyMode, d.Mode).Msg("policy applied")
	if len(d.NeedsRestart) > 0 {
		s.o.Log.Warn().Strs(system.KeyKeys, d.NeedsRestart).Msg("needs restart")
	}
	return nil
}

// CarryOut sets what is kept outside of the rules. Commands wait for wait.killed too,
// so the verdict has to be there a little before.
func (s *Steward) CarryOut(p *policy.Policy) {
	wait := p.Wait.Killed.Std()
	s.o.Enforcer.SetLimit(wait - min(wait/10, time.Second))
	s.keeping.Store(len(p.Keep)+len(p.Brokers.Shared) > 0)
	s.o.Kernel.SetGuard(guarding(p))
	s.arm(p)
}

func (s *Steward) Apply() {
	p := s.o.Rules.Policy()
	s.Reterm()
	s.FindRunning()
	s.keepRunning(p)
}

// guarding is what the policy says about signals. The breaker is about ends, and changes
// nothing here.
func guarding(p *policy.Policy) tracer.Guarding {
	all, some := p.Guards()
	return tracer.Guarding{All: all, Some: some, Refuse: p.Refuses()}
}

// Unrefused says that signals which the policy refuses, or a session that spares its root, are only
// recorded here, if so.
func (s *Steward) Unrefused(spares bool) []string {
	if !spares && !s.o.Rules.Policy().Refuses() ||
		s.o.Kernel.Features().RefusesSignals != tracer.RefuserNone {
		return nil
	}
	return []string{policy.Unrefused}
}

// signals says what happens to signals of a session's members that leave it. The innermost guarded
// session around them decides; which one that is makes no difference here.
func (s *Steward) signals(v registry.View, x *registry.Session) api.SignalFate {
	g := guarding(s.o.Rules.Policy())
	for id := range v.Chain(x.ID()) {
		in := v.Session(id)
		if in == nil {
			break
		}
		switch info := in.Info(); {
		case !info.Guarded(g.All):
		case g.Refuse && s.o.Kernel.Features().RefusesSignals != tracer.RefuserNone:
			return api.SignalsRefused
		default:
			return api.SignalsRecorded
		}
	}
	return ""
}
