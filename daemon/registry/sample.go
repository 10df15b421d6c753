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

	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// sampler looks at the kernel once a period, less often while nothing happens, and at once when
// events were lost: current parents, CPU and memory of the members, missed changes. It is the
// fallback for everything that an event should have reported.
type sampler struct {
	registry *Registry
	census   census
	quiet    system.Quiet
	asked    chan Cause    // for a look now
	hurry    chan struct{} // asks for a look out of turn
	begun    chan struct{} // a session begins
	asleep   bool          // a look would show nothing; of the goroutine of run

	// These belong to the registry's goroutine.
	watched    bool                      // a reader watches what changes
	unreleased map[tracer.SessionID]bool // ended or dissolved sessions of which the kernel still has the record

	mu       sync.Mutex    // one look at a time
	last     time.Duration // CLOCK_MONOTONIC of the last walk, 0: none
	owed     Cause         // of a look that failed: the next one has it
	seen     []lineage.Seen
	asks     int               // for sessions
	misses   uint64            // recursion misses at the last look
	counters map[string]uint64 // at the last look, nil before the first
}

func (r *Registry) AskLook() {
	system.Offer(r.looks.hurry, struct{}{})
}

// AskResync requests a look at the kernel now. One that waits already serves later
// requests too.
func (r *Registry) AskResync(why Cause) {
	system.Offer(r.looks.asked, why)
}

// Look looks at the kernel once a period, if that may show something, and when it is asked to, until
// ctx is done.
func (r *Registry) Look(ctx context.Context) { r.looks.run(ctx) }

func (r *Registry) Resync(cause Cause) (*Resync, error) { return r.looks.sample(cause, false) }

// Fresh looks at the kernel, unless the last look is less than a second ago: any caller may ask.
func (r *Registry) Fresh() error {
	r.looks.mu.Lock()
	recent := r.looks.last != 0 && r.o.Clock.Monotonic()-r.looks.last < time.Second
	r.looks.mu.Unlock()
	if recent {
		return nil
	}
	_, err := r.Resync(CauseNone)
	return err
}

func (p *sampler) run(ctx context.Context) {
	tick := time.NewTimer(p.registry.o.Period)
	defer tick.Stop()
	for {
		look, period, cause := true, false, CauseNone
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			period = true
		case <-p.begun:
			if p.asleep {
				p.asleep = false
				tick.Reset(p.registry.o.Period)
			}
			continue
		case <-p.hurry:
		case cause = <-p.asked:
		case <-p.registry.doubts.some:
			look = false
		}
		if look {
			_, err := p.sample(cause, period)
			system.Failure(p.registry.o.Log, err).Msg("state of the kernel side not read")
		}
		if period {
			next := p.registry.o.Period
			if p.asleep {
				next *= system.LooksApart
			}
			tick.Reset(next)
			continue // a doubt asks for itself
		}
		// A storm that overruns the ring asks all the time; its requests during the
		// pause are served by one look after it.
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(p.registry.o.Period, resyncPause)):
		}
		p.registry.Do(func(Tx) { p.settleDoubts() })
	}
}

const resyncPause = 100 * time.Millisecond

// sample takes one look and hands it to the registry. Without a live session there is nothing to
// look at, unless there is a cause: then the end of a period only brings the kernel's counters.
func (p *sampler) sample(cause Cause, period bool) (*Resync, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := &Resync{Cause: cmp.Or(cause, p.owed)}
	err := p.look(done, period)
	if p.owed = CauseNone; err != nil {
		p.owed = done.Cause
		return nil, err
	}
	return done, nil
}

// look takes the look that done has the cause of.
func (p *sampler) look(done *Resync, period bool) error {
	r := p.registry
	due := !period || done.Cause != CauseNone || p.due()
	if !due && !p.asleep {
		return nil // what the counters count begins with a birth, or an event
	}
	misses, err := r.o.Kernel.RecursionMisses()
	if err != nil {
		return fmt.Errorf("read recursion misses: %w", err)
	}
	counters, err := r.o.Kernel.Counters()
	if err != nil {
		return fmt.Errorf("read counters: %w", err)
	}
	features := r.o.Kernel.Features()
	grown, reconcile := p.grown(misses, counters, features)
	done.Cause = cmp.Or(done.Cause, grown)
	skipped := grown == CauseMisses && !features.SecondWriters
	if reconcile {
		if done.Added, done.Removed, err = r.o.Kernel.Reconcile(); err != nil {
			r.o.Log.Error().Err(err).Msg("members not reconciled")
		} else {
			r.o.Log.Warn().Int(system.KeyAdded, done.Added).Int(system.KeyRemoved, done.Removed).
				Msg("births or deaths may have been missed, members reconciled")
		}
	}
	if grown == CauseMisses {
		if n, err := r.o.Kernel.OpenMissedAgents(); err != nil {
			r.o.Log.Error().Err(err).Msg("missed agents not found")
		} else if n > 0 {
			r.o.Log.Warn().Int(system.KeyAdded, n).
				Msg("the kernel skipped the exec of agents, sessions opened")
		}
	}
	if !due && done.Cause == CauseNone {
		return r.Update(func(Tx) { r.counted(misses, counters, skipped) })
	}
	infos, err := p.sessions(done.Cause)
	if err != nil {
		return fmt.Errorf("list sessions: %w", err)
	}
	p.census.begin(infos)
	infos = slices.DeleteFunc(infos, Hidden)
	wanted, err := Change(r, func(t Tx) (Want, error) { return t.wanted(), nil })
	if err != nil {
		return err
	}
	if len(infos) == 0 && done.Cause == CauseNone && wanted == WantNone {
		return r.Update(func(Tx) { r.counted(misses, counters, skipped); r.known(nil) })
	}
	now, seen, err := p.snapshot()
	if err != nil {
		return err
	}
	if p.census.broken(r.o.Kernel) {
		return p.repair()
	}
	var after []func()
	var failed error
	err = r.Update(func(Tx) {
		r.counted(misses, counters, skipped)
		r.known(infos)
		r.mourn(&p.census)
		p.repaired(done, now, r.sampled(now, seen))
		look := &Look{Resync: *done, Seen: seen}
		after = r.view().looked(look)
		failed = look.failed
	})
	for _, f := range after {
		f()
	}
	return cmp.Or(err, failed)
}

// grown compares the kernel's counters with the last look, and returns the cause for
// which the picture may be wrong, and whether the kernel's own bookkeeping may be.
func (p *sampler) grown(
	misses, counters map[string]uint64, has tracer.Features) (cause Cause, reconcile bool) {
	sum := uint64(0)
	for _, n := range misses {
		sum += n
	}
	before, first := p.counters, p.counters == nil
	more := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return counters[name] > before[name] })
	}
	skipped := sum > p.misses
	unentered := has.Level < 3 && more("enter_failed") // else such a child was killed at birth
	p.misses, p.counters = sum, counters
	switch {
	case first && (sum > 0 && !has.SecondWriters || unentered || counters["delete_failed"] > 0):
		return CauseMisses, true // there were no looks while no daemon ran
	case first:
	case skipped:
		return CauseMisses, !has.SecondWriters || unentered || more("delete_failed")
	case unentered, more("delete_failed"):
		return CauseBirths, true
	case more("missed_births", "missed_deaths", "enter_failed"):
		return CauseBirths, false
	case more("events_lost", "listen_failed"):
		return CauseLost, false
	}
	return CauseNone, false
}

// snapshot reads every process of the host: those outside prove that a PID belongs to
// another process now.
func (p *sampler) snapshot() (now uint64, seen []lineage.Seen, err error) {
	now, p.last = p.registry.o.Clock.Boottime(), p.registry.o.Clock.Monotonic()
	p.seen = p.seen[:0]
	err = p.registry.o.Kernel.Snapshot(0, func(t *tracer.Process) error {
		p.census.meet(t)
		p.met(t)
		p.seen = append(p.seen, seenOf(t))
		return nil
	})
	if err != nil {
		return 0, nil, fmt.Errorf("read task list: %w", err)
	}
	p.met(nil)
	return now, p.seen, nil
}

// met hands a process of the walk to the features, and nil after the last one.
func (p *sampler) met(t *tracer.Process) {
	for _, h := range p.registry.hooks {
		if h.Met != nil {
			h.Met(t)
		}
	}
}

// repair asks the kernel to correct what must not be: members of a session that does not
// exist. The next look sees where they are.
func (p *sampler) repair() error {
	r := p.registry
	n, _, err := r.o.Kernel.Reconcile()
	if err != nil {
		return fmt.Errorf("repair the members of a session that is not there: %w", err)
	}
	r.o.Log.Error().Int(system.KeyAdded, n).Msg("members without a session record: repaired")
	r.AskResync(CauseMember)
	return r.Update(func(t Tx) {
		t.Degrade("found members without a session record: processes that an end should have killed may be alive")
	})
}

func (r *Registry) counted(misses, counters map[string]uint64, grown bool) {
	if n := counters["agent_refused"]; r.counts.counters != nil && n > r.counts.counters["agent_refused"] {
		r.view().Degrade("agents started without a session: too many of one user, nested too deep, or no free slot")
	}
	if n := counters["enter_failed"]; r.counts.counters != nil && n > r.counts.counters["enter_failed"] {
		fate := map[bool]string{true: "killed at birth",
			false: "killed if they were found"}[r.o.Kernel.Features().Level >= 3]
		r.view().Degrade("children of members were " + fate +
			", because the kernel side had no room for them: was pid_max raised since it was loaded?")
	}
	r.counts.misses, r.counts.counters = misses, counters
	if grown {
		r.view().Degrade("the kernel skipped programs: births may have been missed")
	}
}

func (r *Registry) known(infos []tracer.SessionInfo) {
	in := make(map[tracer.SessionID]bool, len(infos))
	for _, info := range infos {
		in[info.ID] = true
		s := r.sessions[info.ID]
		if info.State == tracer.StateDissolved || s != nil && s.closed || r.looks.unreleased[info.ID] {
			r.release(info.ID)
			continue
		}
		if s == nil && slices.Contains(r.gone, info.ID) {
			continue
		}
		if s == nil {
			s = r.enter(info)
		}
		s.update(info)
		// Its event may have been lost, and nothing else would notice; and an expired
		// lifetime waits for an event of some process of the host.
		over := info.Expires != 0 && info.Expires <= r.o.Clock.Boottime()
		if s.info.State != tracer.StateActive || info.Live == 0 || over {
			r.o.Enforcer.Watch(info.ID)
		}
	}
	for id, s := range r.sessions {
		if !in[id] && !s.closed {
			r.o.Enforcer.Watch(id)
		}
	}
	for _, id := range slices.Collect(maps.Keys(r.sessions)) {
		r.conclude(r.sessions[id]) // a verdict that waited for an event
	}
}

// sampled repairs the graph and counts the zombies.
func (r *Registry) sampled(now uint64, seen []lineage.Seen) []lineage.Change {
	for i := range seen {
		r.sessionOf(seen[i].Session) // held before its members are in the graph: hooks and readers rely on it
	}
	changes := r.graph.Resync(now, seen)
	for id, s := range r.sessions {
		s.zombies = 0
		if !s.closed {
			r.view().Changed(id)
		}
	}
	for i := range seen {
		if s := r.sessions[seen[i].Session]; s != nil && seen[i].Zombie {
			s.zombies++
		}
	}
	return changes
}

// mourn notes the deaths of roots and owners that no event reported, and has the enforcer look
// at the sessions that they end.
func (r *Registry) mourn(c *census) {
	for _, s := range r.sessions {
		if _, asked := c.met[s.info.Root]; !asked || s.closed {
			continue // not asked: it began after the walk
		}
		root := c.died(r.o.Kernel, s.info.Root)
		if root && s.rootDied == 0 {
			s.rootDied = r.foundDead(&s.info)
			r.view().notify(s, func(h *Hooks) sessionHook { return h.RootDied })
		}
		if s.info.State == tracer.StateActive && (root && !s.info.KeepOnRootExit ||
			c.died(r.o.Kernel, s.info.Owner)) {
			r.o.Enforcer.Watch(s.info.ID)
		}
	}
}

// foundDead is when a root died, at the latest, if no event reported it.
func (r *Registry) foundDead(info *tracer.SessionInfo) uint64 {
	if info.Cause == tracer.CauseRootExit {
		return info.EndedAt
	}
	return r.o.Clock.Boottime()
}

// Forget forgets a hidden session that was released in the kernel. It waits for a look
// that began before, which would bring its members back.
func (r *Registry) Forget(id tracer.SessionID) error {
	r.looks.mu.Lock()
	defer r.looks.mu.Unlock()
	return r.Update(func(Tx) {
		if r.canaries.find(id) == nil {
			r.canaries.add(id)
		}
		r.canaries.find(id).over = true
		r.graph.Forget(id)
	})
}
