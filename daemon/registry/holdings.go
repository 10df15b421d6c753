//go:build linux

package registry

import (
	"context"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/daemon/sockets"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	// maxBefore bounds what reading ports and locks may take while signals wait
	// for it.
	maxBefore = 40 * time.Millisecond
	// collectAside bounds it where nobody waits.
	collectAside = time.Second
	// maxHeld bounds the ports and the locks of one receipt.
	maxHeld = 1024
)

// holdings is what a session's members held when they were last seen.
type holdings struct {
	held    resources.Held // as of the last look
	sockets sockets.Set    // that the kernel told of
	output  string         // the pipe or socket that is its root's standard output

	looking bool
	after   *aftermath // nil: nobody has looked yet
}

// aftermath is what became of it.
type aftermath struct {
	held            resources.Held // before
	freed           resources.Freed
	released, still []resources.Lock
	writers         []tracer.Identity
	unknown         []string
}

// tracker keeps up with what sessions hold.
type tracker struct {
	holds     *resources.Reader
	ending    chan tracer.SessionID // asks for what it holds now
	portsWait func() time.Duration
}

func newTracker(p *Options) tracker {
	t := tracker{
		holds: resources.New(string(p.Proc), p.Kernel.Identify), ending: make(chan tracer.SessionID, 64),
		portsWait: p.PortsWait,
	}
	if t.portsWait == nil {
		t.portsWait = policy.Default().Wait.Ports.Std
	}
	return t
}

// Holds reads ports, locks and files of processes.
func (o *Registry) Holds() *resources.Reader { return o.holds }

// members names the live members of a session.
func members(k Kernel, id tracer.SessionID) (ids []tracer.Identity, err error) {
	err = k.Snapshot(id, func(p *tracer.Process) error {
		if !p.Dead && !p.Zombie {
			ids = append(ids, p.Identity)
		}
		return nil
	})
	return ids, err
}

// collect reads what the members of a session hold now and hands it to the
// owner.
func (o *Registry) collect(id tracer.SessionID, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := o.clock.Boottime()
	ids, err := members(o.kernel, id)
	if err != nil {
		o.log.Error().Err(err).Str(logging.KeySession, id.String()).Msg("ports and locks not read")
		return
	}
	held := o.holds.Of(ctx, ids)
	_ = o.do(func() {
		if s := o.sessions[id]; s != nil && !s.closed {
			o.view().Refresh(s)
			s.seen(held, began)
		}
	})
}

// CollectBefore reads what the members of a session hold before the first signal, which waits no longer than
// maxBefore for any part of it.
func (o *Registry) CollectBefore(id tracer.SessionID) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.collect(id, maxBefore)
	}()
	select {
	case <-done:
	case <-time.After(maxBefore):
	}
}

// seen takes what a look found that began at that boottime. Once the end has begun nothing
// is taken back: a process that died while it was looked at held it still when it began.
func (s *Session) seen(now resources.Held, began uint64) {
	now.Ports = slices.DeleteFunc(now.Ports, func(p resources.Port) bool { return s.sockets.ClosedSince(&p, began) })
	if s.info.State != tracer.StateActive || len(now.Unknown) > 0 {
		for _, p := range s.held.Ports {
			if !slices.Contains(now.Ports, p) {
				now.Ports = append(now.Ports, p)
			}
		}
		for _, l := range s.held.Locks {
			same := func(o resources.Lock) bool { return o.Holder == l.Holder && o.Kind == l.Kind && o.Path == l.Path }
			if !slices.ContainsFunc(now.Locks, same) {
				now.Locks = append(now.Locks, l)
			}
		}
	}
	now.Ports = now.Ports[:min(len(now.Ports), maxHeld)]
	now.Locks = now.Locks[:min(len(now.Locks), maxHeld)]
	s.held = now
}

// Ending gives sessions that begin to end, and others whose holdings are to be read now, by Collect.
func (o *Registry) Ending() <-chan tracer.SessionID { return o.ending }

// Collect reads what the members of a session hold now.
func (o *Registry) Collect(id tracer.SessionID) { o.collect(id, collectAside) }

// askHeld has the holdings of a session that begins to end read at once.
func (o *Registry) askHeld(id tracer.SessionID) {
	select {
	case o.ending <- id:
	default: // many end at once: what was seen last has to do
	}
}

// settled reports that the receipt may be written: nothing was held, or
// somebody has looked what became of it. Else it begins to look; a session
// whose members are all gone is given time for its ports.
func (o *Registry) settled(s *Session, empty bool) bool {
	alone := s.output == "" || s.info.Forks < 2 // then nobody can have got the output
	held := s.heldAtEnd()
	if s.after != nil || len(held.Ports)+len(held.Locks) == 0 && alone {
		return true
	}
	if s.looking {
		return false
	}
	s.looking = true
	id, output, own, owner := s.info.ID, s.output, o.cameFrom(s.info.ID), s.info.Owner
	wait := time.Duration(0)
	if empty {
		wait = o.portsWait()
	}
	go func() {
		a := o.look(held, output, own, owner, wait)
		_ = o.do(func() {
			if s := o.sessions[id]; s != nil {
				s.looking, s.after = false, a
				o.conclude(s)
			}
		})
	}()
	return false
}

// look says what became of ports, locks and output, when no listener is left
// on the ports or the time to wait for that is over. Of those who have the
// output only the session's own are named: others have it from whoever started
// the session, and share it by right. So does the owner a lock that it has open
// as well: the members inherited it.
func (o *Registry) look(held resources.Held, output string, own map[tracer.SessionID]bool, owner tracer.Identity, wait time.Duration) *aftermath {
	a := &aftermath{held: held, unknown: held.Unknown}
	ctx, cancel := context.WithTimeout(context.Background(), wait+collectAside)
	defer cancel()
	began := time.Now()
	for pause := 10 * time.Millisecond; len(held.Ports) > 0; pause = min(2*pause, 250*time.Millisecond) {
		a.freed = sockets.Freed(ctx, o.kernel, o.holds, held.Ports)
		if len(a.freed.Busy) == 0 || time.Since(began)+pause > wait {
			break
		}
		time.Sleep(pause)
	}
	a.unknown = append(a.unknown, a.freed.Unknown...)
	busy, unknown := sockets.Holders(ctx, o.holds, a.freed.Busy)
	a.freed.Busy, a.unknown = busy, append(a.unknown, unknown...)
	if len(held.Locks) > 0 {
		var unknown []string
		a.released, a.still, unknown = o.holds.Released(ctx, held.Locks)
		a.unknown = append(a.unknown, unknown...)
	}
	if len(a.still) > 0 && owner != (tracer.Identity{}) {
		inherited := o.holds.Of(ctx, []tracer.Identity{owner}).Locks
		a.still = slices.DeleteFunc(a.still, func(l resources.Lock) bool {
			return slices.ContainsFunc(inherited, func(o resources.Lock) bool { return o.Same(&l) })
		})
	}
	if output == "" {
		return a
	}
	writers, err := o.holds.Writers(ctx, output)
	if err != nil && len(held.Ports)+len(held.Locks) > 0 {
		a.unknown = append(a.unknown, "output: "+err.Error())
	}
	for _, w := range writers {
		if e, err := o.kernel.Lookup(w.PID); err == nil && e.Identity == w && own[e.Session] {
			a.writers = append(a.writers, w)
		}
	}
	return a
}

// cameFrom are the sessions that what a session started may be in: its own, those
// nested in it, and those that hold what was handed over by these, kept or as the
// work of brokers.
func (o *Registry) cameFrom(id tracer.SessionID) map[tracer.SessionID]bool {
	own := map[tracer.SessionID]bool{id: true}
	for n := 0; n < len(own); {
		n = len(own)
		for other, x := range o.sessions {
			if own[x.info.Parent] || o.from(x, own) {
				own[other] = true
			}
		}
	}
	return own
}

// from reports whether what a session holds came from one of own.
func (o *Registry) from(s *Session, own map[tracer.SessionID]bool) bool {
	return slices.ContainsFunc(o.hooks, func(h *Hooks) bool { return h.Origin != nil && own[h.Origin(o.view(), s)] })
}

// freed writes into a receipt what became of the holdings.
func (o *Registry) freed(r *api.Report, s *Session) {
	a := s.after
	if a == nil {
		return
	}
	// Who had it is in the list of what was held, not in that of what is free.
	had := make(map[string]tracer.Identity)
	for _, p := range a.held.Ports {
		had[p.String()] = p.Holder
	}
	for _, p := range a.freed.Ports {
		p.Holder = had[p.String()]
		r.PortsFreed = append(r.PortsFreed, document.Port(&p))
	}
	for _, p := range a.freed.Busy {
		r.PortsBusy = append(r.PortsBusy, document.Port(&p))
	}
	for _, w := range a.freed.Waits {
		p := document.Port(&w.Port)
		p.Connections = w.Connections
		r.PortsTimeWait = append(r.PortsTimeWait, p)
	}
	for _, l := range a.released {
		i := slices.IndexFunc(a.held.Locks, func(h resources.Lock) bool { return h.Kind == l.Kind && h.Path == l.Path })
		if i >= 0 {
			l.Holder, l.Waiting = a.held.Locks[i].Holder, a.held.Locks[i].Waiting
		}
		r.LocksReleased = append(r.LocksReleased, document.Lock(&l))
	}
	for _, l := range a.still {
		r.LocksHeld = append(r.LocksHeld, document.Lock(&l))
	}
	for _, w := range a.writers {
		p := api.Process{Ref: document.Ref(w)}
		if st, err := o.proc.Status(w.PID); err == nil {
			p.Comm = st.Name
		}
		r.OutputHeldBy = append(r.OutputHeldBy, p)
	}
	r.HoldsUnknown = a.unknown
}
