//go:build linux

package attribution

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
)

type Options struct {
	rules.Options // of the steward
	Steward       *rules.Steward
	Sockets       func(pid uint32) ([]Socket, error) // of a process
	Files         string                             // the root of the host's files
	Self          tracer.Identity                    // the daemon
}

// New makes an attribution; attach its hooks.
func New(o Options) *Attribution {
	return &Attribution{
		o: o, engines: engines{o.Proc, o.Self.PID, o.Sockets},
		cookieSets: make(map[tracer.SessionID]*cookieSet),
		met:        make(chan []tracer.Process, 1), asked: make(chan struct{}, 1),
		due: make(chan struct{}, 1), unsure: make(chan tracer.Identity, maxUnsure),
		sessions: make(map[tracer.SessionID]*brokered), memory: memory.NewShare(maxMemory),
	}
}

// Attribution finds the work of brokers. What a member hands to another daemon is not forked
// by the session but by that daemon. Each process born since a session began is examined, and
// attributed on evidence. What strong evidence shows enters the session itself, if the policy
// ends it; the rest is shown beside it, in a companion session. A command in a container is in a
// session already, and is joined with the member that asked for it.
type Attribution struct {
	o       Options
	engines engines

	cookieSets map[tracer.SessionID]*cookieSet
	groups     *groups // as of this look; nil: not needed yet
	crowd      crowd   // of the goroutine that looks
	looked     uint64  // when the clients of shared servers were last looked at

	met    chan []tracer.Process // in the last looks
	asked  chan struct{}         // a member asked for something
	due    chan struct{}         // a look is over, or the client of a command was interrupted
	unsure chan tracer.Identity  // held on weak evidence, and have execed since

	// Of the registry's goroutine.
	sessions map[tracer.SessionID]*brokered
	memory   *memory.Share // of requests and of what was found
}

// Pauses between looks: after a request the host is looked at more often for a while, and its client is asked for its engine.
var pollDelays = []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond,
	time.Second, time.Second, time.Second, time.Second}

// Run judges the processes that the sampler meets.
func (a *Attribution) Run(ctx context.Context) {
	hurry, soon := time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	defer hurry.Stop()
	defer soon.Stop()
	next := len(pollDelays)
	var unsure []tracer.Identity
	for {
		select {
		case <-ctx.Done():
			return
		case met := <-a.met:
			a.judge(met)
			a.endDue(ctx)
		case id := <-a.unsure:
			if len(unsure) == 0 {
				soon.Reset(looksAgain)
			}
			if len(unsure) < maxUnsure {
				unsure = append(unsure, id)
			}
		case <-soon.C:
			a.again(unsure)
			unsure = unsure[:0]
		case <-a.due:
			a.look(ctx)
		case <-a.asked:
			a.wantJoins()
			next = 0
			hurry.Reset(pollDelays[0])
		case <-hurry.C:
			now := a.o.Clock.Boottime()
			a.connect(func(r *request) bool { return r.within(now, false) })
			a.o.Registry.AskLook()
			if next++; next < len(pollDelays) {
				hurry.Reset(pollDelays[next])
			}
		}
	}
}

// judge judges processes, the oldest first: their descendants are entered with them.
func (a *Attribution) judge(met []tracer.Process) {
	all, companions := a.claimants()
	if len(all) == 0 {
		return
	}
	slices.SortFunc(met, func(x, y tracer.Process) int { return cmp.Compare(x.Start, y.Start) })
	a.groups = nil
	policy := a.o.Rules.Policy()
	byCookie := slices.Contains(policy.Brokers.Adopt, tracer.SourceCookie.String())
	a.meetServers(all)
	for i := range met {
		t := &met[i]
		if k := slices.IndexFunc(all, func(c claimant) bool { return c.info.ID == t.Session }); k >= 0 && byCookie {
			a.readCookies(t, &all[k].info)
		}
	}
	for i := range all {
		if j := a.cookieSets[all[i].info.ID]; j != nil {
			all[i].cookies = j.inside
		}
	}
	for i := range met {
		t := &met[i]
		if t.Session != 0 && !companions[t.Session] || a.taken(t) {
			continue
		}
		x, ok := a.read(t)
		if !ok {
			continue
		}
		p := a.prove(&x, all, policy.Brokers.Adopt)
		if p == nil || len(policy.Protected(a.o.Steward.Facts(t.PID, rules.MaxFacts))) > 0 ||
			a.o.Enforcer.CheckRoot(t.Identity, tracer.Identity{}) != nil {
			continue
		}
		switch {
		case t.Session == 0:
			a.take(&x, p)
		case p.source.Strong():
			a.raise(&x, p)
		}
	}
}

// taken reports whether a process is now a member of another session, or is protected.
func (a *Attribution) taken(t *tracer.Process) bool {
	e, err := a.o.Kernel.Lookup(t.PID)
	return err == nil && e.Identity == t.Identity &&
		(e.Session != t.Session || e.Flags&tracer.FlagProtected != 0)
}

// claimants are the sessions that outsiders may work for, and the companion sessions
// whose members are there on weak evidence.
func (a *Attribution) claimants() (all []claimant, companions map[tracer.SessionID]bool) {
	companions = make(map[tracer.SessionID]bool)
	err := a.o.Registry.Read(func(v registry.View) {
		for id := range a.cookieSets {
			if x := v.Session(id); x == nil || x.Closed() {
				delete(a.cookieSets, id)
			}
		}
		for x := range v.Sessions() {
			its := a.of(x.ID())
			if its.For != 0 && its.Weak && !x.Closed() && x.Info().State == tracer.StateActive {
				companions[x.ID()] = true
			}
			if x.Info().Kept || its.For != 0 || x.Closed() && !its.awaits() {
				continue
			}
			c := claimant{info: x.Info(), brokered: its.clone(),
				word: lookup.SumOf(x.ID().String()), over: x.Closed()}
			if c.info.UID != 0 { // a user's own session has a root of that user
				c.UIDs = append(c.UIDs, c.info.UID)
			}
			all = append(all, c)
		}
	})
	if err != nil {
		return nil, nil
	}
	return all, companions
}

// ends reports whether that evidence is enough to end a process with the session for
// which it works.
func (a *Attribution) ends(p *proof) bool {
	return a.o.Rules.Enforced(p.claimant.info.UID) && a.wouldEnd(p.source)
}

// wouldEnd reports that for a policy that is enforced.
func (a *Attribution) wouldEnd(source tracer.Source) bool {
	return enough(a.o.Rules.Policy().Brokers.End, source.Strong())
}

// enough reports whether the policy's word accepts strong or weak evidence.
func enough(word string, strong bool) bool { return word == "all" || word == "strong" && strong }

func (a *Attribution) take(x *candidate, p *proof) {
	into := p.claimant.info.ID
	err := tracer.ErrBusy
	if p.source.Strong() && a.ends(p) && !p.claimant.over {
		err = a.o.Kernel.Enter(0, into, x.Identity, p.client(), p.source)
	}
	if errors.Is(err, tracer.ErrBusy) { // or the session is over by now, and would kill the process
		into, err = a.companion(x, p)
	}
	switch {
	case errors.Is(err, tracer.ErrNotFound), errors.Is(err, tracer.ErrProtected):
		return // it is gone, or a member by now
	case err != nil:
		a.o.Log.Error().Err(err).Str(system.KeySession, p.claimant.info.ID.String()).
			Uint32(system.KeyPID, x.PID).Msg("delegated work not attributed")
		return
	}
	n, err := a.o.Kernel.Adopt(into, 0)
	system.Failure(a.o.Log, err).
		Str(system.KeySession, into.String()).Msg("descendants of delegated work not entered")
	a.book(x, p, into, n)
}

// book records that a process, and n of its descendants, was entered.
func (a *Attribution) book(x *candidate, p *proof, into tracer.SessionID, n int) {
	if p.asked != nil {
		p.asked.Found = true // for the candidates that follow
	}
	a.o.Registry.Do(func(t registry.Tx) {
		if x.container != nil {
			t.Contain(x.Identity, x.container)
		}
		if s := t.Session(p.claimant.info.ID); s != nil {
			a.found(t.View, s, attributed{
				Process: x.Identity, Comm: x.Comm.String(), Source: p.source,
				Asked: p.asked, Session: into,
				Ends: a.ends(p), Observed: !a.ends(p) && a.wouldEnd(p.source),
				At: a.o.Clock.Boottime(), Terminal: x.terminal && !p.source.Strong(),
			})
		}
	})
	a.o.Log.Info().Str(system.KeySession, into.String()).
		Uint32(system.KeyPID, x.PID).Str(system.KeySource, p.source.String()).
		Bool(system.KeyStrong, p.source.Strong()).Int(system.KeyAdded, n).Msg("delegated work attributed")
	a.o.Steward.Record("broker", access.AuditDone, fmt.Sprintf("adopted(%v) for session %v",
		p.source, p.claimant.info.ID), into, x.Identity)
	a.o.Registry.AskResync(registry.CauseMoved)
}

// companion enters an outsider into the companion session for such work of a session,
// and opens it if needed: there may be one that is over in the kernel already.
func (a *Attribution) companion(x *candidate, p *proof) (id tracer.SessionID, err error) {
	id, made, err := a.openCompanion(x, p, false)
	if err != nil || made {
		return id, err
	}
	if err = a.o.Kernel.Enter(0, id, x.Identity, p.client(), p.source); errors.Is(err, tracer.ErrBusy) {
		id, _, err = a.openCompanion(x, p, true)
	}
	return id, err
}

// openCompanion returns the companion session for such work, and opens it over the outsider if
// there is none, or another one is wanted. It belongs to the process's uid: a coincidence must
// not give a session's user rights over others' processes.
func (a *Attribution) openCompanion(x *candidate, p *proof, another bool) (id tracer.SessionID,
	made bool, err error) {
	weak := !p.source.Strong()
	var refused error
	err = a.o.Registry.Update(func(t registry.Tx) {
		for s := range t.Sessions() {
			its, info := a.of(s.ID()), s.Info()
			if !another && its.For == p.claimant.info.ID && its.Weak == weak &&
				info.UID == x.UID && !s.Closed() && info.State == tracer.StateActive {
				id = s.ID()
				return
			}
		}
		s, err := t.Create(tracer.SessionSpec{
			Root: x.Identity, UID: x.UID, Grace: p.claimant.info.Grace,
			KeepOnRootExit: true, Adopted: true, Source: p.source,
			For: p.claimant.info.ID, Weak: weak,
		})
		if refused = err; err == nil {
			id, made = s.ID(), true
		}
	})
	return id, made, errors.Join(err, refused)
}

// endDue ends what has to end with another session, as far as the policy goes: work that was found for it, and commands
// that it asked for; commands whose client was interrupted; and servers that no session is left to use. With a rule, a
// command that its client has left on purpose outlives the session that asked for it: the events are read first.
func (a *Attribution) endDue(ctx context.Context) {
	due, err := a.isDue()
	if err == nil && len(due) > 0 {
		a.o.Registry.CatchUp(ctx)
		due, err = a.isDue()
	}
	for i := 0; err == nil && i < len(due); i++ {
		a.o.Steward.EndOver(due[i])
	}
}

func (a *Attribution) isDue() ([]rules.Excess, error) {
	policy := a.o.Rules.Policy()
	return registry.Ask(a.o.Registry, func(v registry.View) (due []rules.Excess) {
		for x := range v.Sessions() {
			if !x.Active() {
				continue
			}
			its, info, shared := a.of(x.ID()), x.Info(), a.o.Steward.Shared(v, x.ID())
			over := rules.Excess{Session: info.ID, UID: info.UID, Grace: info.Grace, ByPolicy: true}
			asked := its.command.Asker != 0 && rules.EndsWithClient(policy, info)
			switch {
			case asked && its.command.Interrupted:
				over.Cause = tracer.CauseOwnerExit
			case its.For != 0 && a.over(v, its.For) && enough(policy.Brokers.End, !its.Weak),
				asked && (info.For != 0 || !its.command.Detached) && a.over(v, its.command.Asker):
				over.Cause = tracer.CauseAncestor
			case shared != "" && !a.used(v, x):
				r := policy.SharedNamed(shared)
				if r != nil && r.Lasts() {
					continue
				}
				over.Cause, over.ByPolicy = tracer.CauseExpired, r != nil
			default:
				continue
			}
			if a.o.Steward.Noted(over) {
				continue
			}
			if v.Refresh(x); x.Active() { // the kernel may have been first
				due = append(due, over)
			}
		}
		return due
	})
}

// over reports whether a session has begun to end, or is forgotten.
func (a *Attribution) over(v registry.View, id tracer.SessionID) bool {
	s := v.Session(id)
	return s == nil || !s.Active()
}
