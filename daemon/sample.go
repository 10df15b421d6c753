//go:build linux

package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// sampler looks at the kernel once a period, and at once when events were
// lost: present parents, CPU and memory of the members, what was missed. It is
// the fallback for whatever an event should have told.
type sampler struct {
	owner  *owner
	rules  *rules
	period time.Duration

	mu     sync.Mutex // one look at a time
	looked bool
	seen   []lineage.Seen
	comms  []byte // of seen
	misses uint64 // recursion misses at the last look
}

func (p *sampler) run(ctx context.Context) {
	tick := time.NewTicker(p.period)
	defer tick.Stop()
	for {
		force := false
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-p.owner.resync:
			force = true
		}
		if _, err := p.sample(force); err != nil {
			p.owner.log.Error().Err(err).Msg("kernel not sampled")
		}
		// A storm that overruns the ring asks all the time; what it asks for
		// meanwhile is one look later.
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(p.period, resyncPause)):
		}
	}
}

const resyncPause = 100 * time.Millisecond

// sample takes one look and hands it to the owner. Without a live session
// there is nothing to look at, unless it is forced.
func (p *sampler) sample(force bool) (changes int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.owner
	misses, err := o.kernel.RecursionMisses()
	if err != nil {
		return 0, fmt.Errorf("read recursion misses: %w", err)
	}
	counters, err := o.kernel.Counters()
	if err != nil {
		return 0, fmt.Errorf("read counters: %w", err)
	}
	sum := uint64(0)
	for _, n := range misses {
		sum += n
	}
	grown := p.looked && sum > p.misses
	p.looked, p.misses = true, sum
	if grown {
		if added, removed, err := o.kernel.Reconcile(); err != nil {
			o.log.Error().Err(err).Msg("members not reconciled")
		} else {
			o.log.Warn().Int(keyAdded, added).Int(keyRemoved, removed).Msg("the kernel skipped programs, members reconciled")
		}
	}
	infos, err := o.kernel.Sessions()
	if err != nil {
		return 0, fmt.Errorf("list sessions: %w", err)
	}
	if len(infos) == 0 && !force && !grown {
		err = o.do(func() { o.counted(misses, counters, grown); o.known(nil) })
		return 0, err
	}
	now, seen, err := p.snapshot()
	if err != nil {
		return 0, err
	}
	var over []excess
	err = o.do(func() {
		o.counted(misses, counters, grown)
		o.known(infos)
		changes = o.sampled(now, seen)
		over = o.overBudget(&p.rules.policy().Defaults)
	})
	for _, x := range over {
		p.endOver(x)
	}
	return changes, err
}

// snapshot reads every process of the host: those outside prove that a PID is
// somebody else's now.
func (p *sampler) snapshot() (now uint64, seen []lineage.Seen, err error) {
	now = p.owner.clock.boottime()
	p.seen, p.comms = p.seen[:0], p.comms[:0]
	err = p.owner.kernel.Snapshot(0, func(t *tracer.Process) error {
		p.comms = append(p.comms, t.Comm[:]...)
		p.seen = append(p.seen, graphSeen(t, p.comms[len(p.comms)-len(t.Comm):]))
		return nil
	})
	if err != nil {
		return 0, nil, fmt.Errorf("read task list: %w", err)
	}
	return now, p.seen, nil
}

// counted notes what the kernel counted.
func (o *owner) counted(misses, counters map[string]uint64, grown bool) {
	o.misses, o.counters = misses, counters
	if grown {
		o.degrade("the kernel skipped programs: births may have been missed")
	}
}

func (o *owner) degrade(why string) {
	if !slices.Contains(o.degraded, why) {
		o.degraded = append(o.degraded, why)
	}
}

// known compares the kernel's sessions with ours.
func (o *owner) known(infos []tracer.SessionInfo) {
	in := make(map[tracer.SessionID]bool, len(infos))
	for _, info := range infos {
		in[info.ID] = true
		s := o.sessions[info.ID]
		if s == nil {
			s = o.enter(info)
		}
		if s.closed {
			continue
		}
		state := max(s.info.State, info.State)
		s.info = info
		s.info.State = state
		// Its event may have been lost, and nobody else would look.
		if state != tracer.StateActive || info.Live == 0 {
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
func (o *owner) sampled(now uint64, seen []lineage.Seen) int {
	changes := o.graph.Resync(now, seen)
	for _, s := range o.sessions {
		s.rss, s.cpu, s.zombies = 0, 0, 0
	}
	for i := range seen {
		s := o.sessions[tracer.SessionID(seen[i].Session)]
		switch {
		case s == nil:
		case seen[i].Zombie:
			s.zombies++
		default:
			s.rss += seen[i].RSS
			s.cpu += time.Duration(seen[i].CPUTime)
		}
	}
	return len(changes)
}
