//go:build linux

package registry

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/pace"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// sampler looks at the kernel once a period, more seldom while nothing happens, and at once when
// events were lost: present parents, CPU and memory of the members, what was missed. It is
// the fallback for whatever an event should have told.
type sampler struct {
	registry *Registry
	period   time.Duration
	census   census
	quiet    pace.Quiet
	sleep    pace.Sleep    // without a session
	asked    chan Cause    // for a look now
	hurry    chan struct{} // asks for a look out of turn

	// Of the registry's goroutine.
	watched    bool // somebody watches what changes
	unreleased bool // the kernel still has a session that is over

	mu       sync.Mutex // one look at a time
	seen     []lineage.Seen
	comms    []byte            // of seen
	asks     int               // for sessions
	misses   uint64            // recursion misses at the last look
	counters map[string]uint64 // at the last look, nil before the first
}

// AskLook asks for a look out of turn.
func (o *Registry) AskLook() {
	select {
	case o.looks.hurry <- struct{}{}:
	default:
	}
}

// AskResync asks for a look at the kernel now. What is asked for while a look
// waits is that look's.
func (o *Registry) AskResync(why Cause) {
	select {
	case o.looks.asked <- why:
	default:
	}
}

// Look looks at the kernel once a period, if that may show something, and when it is asked to, until
// ctx is done.
func (o *Registry) Look(ctx context.Context) { o.looks.run(ctx) }

// Resync looks at the kernel now.
func (o *Registry) Resync(cause Cause) (*Resync, error) { return o.looks.sample(cause, false) }

func (p *sampler) run(ctx context.Context) {
	tick := time.NewTicker(p.period)
	defer tick.Stop()
	for {
		look, period, cause := true, false, CauseNone
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			period, look = true, p.sleep.Awake()
		case <-p.hurry:
		case cause = <-p.asked:
		case <-p.registry.doubted:
			look = false
		}
		if look {
			if _, err := p.sample(cause, period); err != nil {
				p.registry.log.Error().Err(err).Msg("state of the kernel side not read")
			}
		}
		if period && !look {
			continue
		}
		// A storm that overruns the ring asks all the time; what it asks for
		// meanwhile is one look later.
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(p.period, resyncPause)):
		}
		_ = p.registry.do(p.registry.settleDoubts)
	}
}

const resyncPause = 100 * time.Millisecond

// sample takes one look and hands it to the registry. Without a live session there is nothing to
// look at, unless there is a cause. At the end of a period it only reads the kernel's counters, if
// a look would show nothing.
func (p *sampler) sample(cause Cause, period bool) (*Resync, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.registry
	misses, err := o.kernel.RecursionMisses()
	if err != nil {
		return nil, fmt.Errorf("read recursion misses: %w", err)
	}
	counters, err := o.kernel.Counters()
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	r := &Resync{Cause: cause}
	// What the first writers missed the second ones have counted, if there are any.
	seenTwice := o.kernel.Features().SecondWriters
	grown, reconcile := p.grown(misses, counters, seenTwice)
	r.Cause = cmp.Or(r.Cause, grown)
	skipped := grown == CauseMisses && !seenTwice
	if reconcile {
		if r.Added, r.Removed, err = o.kernel.Reconcile(); err != nil {
			o.log.Error().Err(err).Msg("members not reconciled")
		} else {
			o.log.Warn().Int(logging.KeyAdded, r.Added).Int(logging.KeyRemoved, r.Removed).Msg("the kernel skipped programs, members reconciled")
		}
	}
	if grown == CauseMisses {
		if n, err := o.kernel.OpenMissedAgents(); err != nil {
			o.log.Error().Err(err).Msg("missed agents not found")
		} else if n > 0 {
			o.log.Warn().Int(logging.KeyAdded, n).Msg("the kernel skipped the exec of agents, sessions opened")
		}
	}
	if period && r.Cause == CauseNone && !p.due() {
		return r, o.do(func() { o.counted(misses, counters, skipped) })
	}
	infos, err := p.sessions(r.Cause)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	p.census.begin(infos)
	infos = slices.DeleteFunc(infos, o.hidden)
	wanted := WantNone
	if err := o.do(func() { wanted = o.view().wanted() }); err != nil {
		return nil, err
	}
	if len(infos) == 0 && r.Cause == CauseNone && wanted == WantNone {
		return r, o.do(func() { o.counted(misses, counters, skipped); o.known(nil) })
	}
	now, seen, err := p.snapshot()
	if err != nil {
		return nil, err
	}
	if p.census.broken(o.kernel) {
		return r, p.repair()
	}
	var after []func()
	var failed error
	err = o.do(func() {
		o.counted(misses, counters, skipped)
		o.known(infos)
		o.mourn(&p.census)
		o.repaired(r, now, o.sampled(now, seen))
		if r.Cause != CauseNone || len(r.Changes) > 0 {
			o.listeners.rehouse()
		}
		if r.Cause != CauseNone {
			failed = o.listeners.relist()
		}
		after = o.view().looked(&Look{At: now, Seen: seen})
	})
	for _, f := range after {
		f()
	}
	return r, cmp.Or(err, failed)
}

// grown compares what the kernel counted with the last look: for which cause
// the picture may be wrong, and whether the kernel's own bookkeeping may be.
func (p *sampler) grown(misses, counters map[string]uint64, seenTwice bool) (cause Cause, reconcile bool) {
	sum := uint64(0)
	for _, n := range misses {
		sum += n
	}
	before, first := p.counters, p.counters == nil
	more := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return counters[name] > before[name] })
	}
	skipped := sum > p.misses
	p.misses, p.counters = sum, counters
	switch {
	case first && (sum > 0 && !seenTwice || counters["delete_failed"] > 0):
		return CauseMisses, true // nobody looked while no daemon ran
	case first:
	case skipped:
		return CauseMisses, !seenTwice || more("delete_failed")
	case more("delete_failed"):
		return CauseBirths, true
	case more("missed_births", "missed_deaths", "enter_failed", "dead_failed"):
		return CauseBirths, false
	case more("events_lost", "listen_failed"):
		return CauseLost, false
	}
	return CauseNone, false
}

// snapshot reads every process of the host: those outside prove that a PID is
// somebody else's now.
func (p *sampler) snapshot() (now uint64, seen []lineage.Seen, err error) {
	now = p.registry.clock.Boottime()
	p.seen, p.comms = p.seen[:0], p.comms[:0]
	err = p.registry.kernel.Snapshot(0, func(t *tracer.Process) error {
		p.comms = append(p.comms, t.Comm[:]...)
		p.census.meet(t)
		for _, h := range p.registry.hooks {
			if h.Met != nil {
				h.Met(t)
			}
		}
		p.seen = append(p.seen, graphSeen(t, p.comms[len(p.comms)-len(t.Comm):]))
		return nil
	})
	if err != nil {
		return 0, nil, fmt.Errorf("read task list: %w", err)
	}
	for _, h := range p.registry.hooks {
		if h.Walked != nil {
			h.Walked()
		}
	}
	return now, p.seen, nil
}

// repair has the kernel put right what must not be: members of a session that is not there.
// The next look sees where they are.
func (p *sampler) repair() error {
	o := p.registry
	n, _, err := o.kernel.Reconcile()
	if err != nil {
		return fmt.Errorf("repair the members of a session that is not there: %w", err)
	}
	o.log.Error().Int(logging.KeyAdded, n).Msg("members without a session record: repaired")
	o.AskResync(CauseMember)
	return o.do(func() {
		o.degrade("found members without a session record: processes that an end should have killed may be alive")
	})
}

// counted notes what the kernel counted.
func (o *Registry) counted(misses, counters map[string]uint64, grown bool) {
	if n := counters["agent_refused"]; o.counters != nil && n > o.counters["agent_refused"] {
		o.degrade("agents started without a session: too many of one user, nested too deep, or no free slot")
	}
	if n := counters["enter_failed"]; o.counters != nil && n > o.counters["enter_failed"] {
		o.degrade("children of members were killed at birth, because the kernel side had no room for them: was pid_max raised since it was loaded?")
	}
	o.misses, o.counters = misses, counters
	if grown {
		o.degrade("the kernel skipped programs: births may have been missed")
	}
}

func (o *Registry) degrade(why string) {
	if !slices.Contains(o.degraded, why) {
		o.degraded = append(o.degraded, why)
	}
}

// known compares the kernel's sessions with ours.
func (o *Registry) known(infos []tracer.SessionInfo) {
	in := make(map[tracer.SessionID]bool, len(infos))
	for _, info := range infos {
		in[info.ID] = true
		s := o.sessions[info.ID]
		if info.State == tracer.StateDissolved || s != nil && s.closed {
			o.release(info.ID)
			continue
		}
		if s == nil && slices.Contains(o.gone, info.ID) {
			continue
		}
		if s == nil {
			s = o.enter(info)
		}
		state := max(s.info.State, info.State)
		s.info = info
		s.info.State = state
		// Its event may have been lost, and nobody else would look; and a
		// lifetime that is over waits for an event of some process of the host.
		over := info.Expires != 0 && info.Expires <= o.clock.Boottime()
		if state != tracer.StateActive || info.Live == 0 || over {
			o.enforcer.Watch(info.ID)
		}
	}
	for id, s := range o.sessions {
		if !in[id] && !s.closed {
			o.enforcer.Watch(id)
		}
	}
	for _, id := range slices.Collect(maps.Keys(o.sessions)) {
		o.conclude(o.sessions[id]) // a verdict that waited for an event
	}
}

// sampled repairs the graph and sums up the members.
func (o *Registry) sampled(now uint64, seen []lineage.Seen) []lineage.Change {
	changes := o.graph.Resync(now, seen)
	for id, s := range o.sessions {
		s.rss, s.cpu, s.zombies = 0, 0, 0
		if !s.closed {
			o.view().Changed(id)
		}
	}
	for i := range seen {
		s := o.sessions[seen[i].Session]
		switch {
		case s == nil:
		case seen[i].Zombie:
			s.zombies++
		default:
			s.rss += seen[i].RSS
			s.cpu += time.Duration(seen[i].CPUTime)
		}
	}
	return changes
}

// mourn notes the deaths of roots and owners that no event told, and has the sessions that they
// end looked at.
func (o *Registry) mourn(c *census) {
	for _, s := range o.sessions {
		if _, asked := c.met[s.info.Root]; !asked || s.closed {
			continue // not asked: it began after the walk
		}
		root := c.died(o.kernel, s.info.Root)
		if root && s.rootDied == 0 {
			s.rootDied = o.foundDead(&s.info)
			o.view().notify(s, func(h *Hooks) sessionHook { return h.RootDied })
		}
		if s.info.State == tracer.StateActive && (root && !s.info.KeepOnRootExit || c.died(o.kernel, s.info.Owner)) {
			o.enforcer.Watch(s.info.ID)
		}
	}
}

// foundDead is when a root died, at the latest, if no event told.
func (o *Registry) foundDead(info *tracer.SessionInfo) uint64 {
	if info.Cause == tracer.CauseRootExit {
		return info.EndedAt
	}
	return o.clock.Boottime()
}

// Forget forgets a hidden session that was released in the kernel. A look that began
// before would bring its members back, so this waits for it.
func (o *Registry) Forget(id tracer.SessionID) error {
	o.looks.mu.Lock()
	defer o.looks.mu.Unlock()
	return o.do(func() {
		if o.canaries.find(id) == nil {
			o.canaries.add(id)
		}
		o.canaries.find(id).over = true
		o.graph.Forget(id)
	})
}
