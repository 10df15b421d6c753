//go:build linux

package registry

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/resources"
	"github.com/lineage-ebpf/lineage/daemon/sockets"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	// maxBefore bounds the time for reading ports and locks while signals wait for it.
	maxBefore = 40 * time.Millisecond
	// collectAside bounds it while nothing waits.
	collectAside = time.Second
	// maxHeld bounds the ports and the locks of one receipt.
	maxHeld = 1024
)

// holdings is what a session's members held when they were last seen.
type holdings struct {
	held    resources.Held // as of the last look
	sockets sockets.Set    // reported by the kernel
	output  string         // the pipe or socket that is its root's standard output

	looking bool
	after   *aftermath // nil: not looked at yet
}

// aftermath is the state of the holdings after the end.
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
func (r *Registry) Holds() *resources.Reader { return r.holds }

// members names the live members of sessions, one in a nested session twice.
func members(k Kernel, sessions map[tracer.SessionID]bool) (ids []tracer.Identity, err error) {
	for id := range sessions {
		err = errors.Join(err, k.Snapshot(id, func(p *tracer.Process) error {
			if !p.Dead && !p.Zombie {
				ids = append(ids, p.Identity)
			}
			return nil
		}))
	}
	return ids, err
}

// collect reads what the members of a session hold now, and hands it to the registry's
// goroutine.
func (r *Registry) collect(id tracer.SessionID, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := r.clock.Boottime()
	ids, err := members(r.kernel, map[tracer.SessionID]bool{id: true})
	if err != nil {
		r.log.Error().Err(err).Str(logging.KeySession, id.String()).Msg("ports and locks not read")
		return
	}
	held := r.holds.Of(ctx, ids)
	_ = r.do(func() {
		if s := r.sessions[id]; s != nil && !s.closed {
			r.view().Refresh(s)
			s.seen(held, began)
		}
	})
}

// CollectBefore reads what the members of a session hold before the first signal. The signal waits at most
// maxBefore for it.
func (r *Registry) CollectBefore(id tracer.SessionID) {
	done := make(chan struct{})
	go r.Guard(func() {
		defer close(done)
		r.collect(id, maxBefore)
	})
	select {
	case <-done:
	case <-time.After(maxBefore):
	}
}

// seen takes the result of a look that began at that boottime. Once the end has begun nothing
// is removed: a process that died during the look still held it when the end began.
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

// Ending sends sessions that begin to end, and others whose holdings Collect is to read now.
func (r *Registry) Ending() <-chan tracer.SessionID { return r.ending }

// Collect reads what the members of a session hold now.
func (r *Registry) Collect(id tracer.SessionID) { r.collect(id, collectAside) }

// askHeld requests that the holdings of a session that begins to end are read at once.
func (r *Registry) askHeld(id tracer.SessionID) {
	select {
	case r.ending <- id:
	default: // many end at once: the result of the last look has to do
	}
}

// settled reports whether the receipt may be written: nothing was held, or the holdings
// were looked at after the end. Otherwise it begins that look; a session whose members
// are all gone is given time for its ports.
func (r *Registry) settled(s *Session, empty bool) bool {
	alone := s.output == "" || s.info.Forks == 0 && s.joined == 0 // then no other process can have the output
	held := r.heldAtEnd(s)
	if s.after != nil || len(held.Ports)+len(held.Locks) == 0 && alone {
		return true
	}
	if s.looking {
		return false
	}
	s.looking = true
	id, output, own, owner := s.info.ID, s.output, r.cameFrom(s.info.ID), s.info.Owner
	wait := time.Duration(0)
	if empty {
		wait = r.portsWait()
	}
	go r.Guard(func() {
		a := r.look(held, output, own, owner, wait)
		_ = r.do(func() {
			if s := r.sessions[id]; s != nil {
				s.looking, s.after = false, a
				r.conclude(s)
			}
		})
	})
	return false
}

// heldAtEnd is what the members of a session held when its end began. The last look also knows
// processes that have exited since, or that were moved to another session, whose receipt has what
// they hold.
func (r *Registry) heldAtEnd(s *Session) resources.Held {
	h := s.held
	h.Ports = slices.DeleteFunc(slices.Clone(h.Ports), func(p resources.Port) bool { return !r.heldUntilEnd(s, p.Holder) })
	h.Locks = slices.DeleteFunc(slices.Clone(h.Locks), func(l resources.Lock) bool { return !r.heldUntilEnd(s, l.Holder) })
	h.Ports = s.sockets.HeldAt(h.Ports, s.info.EndedAt)
	return h
}

// heldUntilEnd reports whether a process was a member when the end of its session began, as far as
// is known. The exit of the root is what may have begun it.
func (r *Registry) heldUntilEnd(s *Session, holder tracer.Identity) bool {
	n, known := r.graph.Node(holder)
	return !known || r.view().Within(n.Session, s.info.ID) &&
		(n.State == lineage.Live || n.Exited >= s.info.EndedAt || holder == s.info.Root)
}

// look reads the state of ports, locks and output, once no listener is left on the
// ports or the time to wait for that is over. Only the session's own processes that
// have the output are named: others got it from the process that started the session,
// and share it by right. Likewise a lock that the owner has open too is left out: the
// members inherited it.
func (r *Registry) look(held resources.Held, output string, own map[tracer.SessionID]bool, owner tracer.Identity, wait time.Duration) *aftermath {
	a := &aftermath{held: held, unknown: held.Unknown}
	ctx, cancel := context.WithTimeout(context.Background(), wait+collectAside)
	defer cancel()
	began := time.Now()
	for pause := 10 * time.Millisecond; len(held.Ports) > 0; pause = min(2*pause, 250*time.Millisecond) {
		a.freed = sockets.Freed(ctx, r.kernel, r.holds, held.Ports)
		if len(a.freed.Busy) == 0 || time.Since(began)+pause > wait {
			break
		}
		time.Sleep(pause)
	}
	a.unknown = append(a.unknown, a.freed.Unknown...)
	busy, unknown := sockets.Holders(ctx, r.holds, a.freed.Busy)
	a.freed.Busy, a.unknown = busy, append(a.unknown, unknown...)
	if len(held.Locks) > 0 {
		var unknown []string
		a.released, a.still, unknown = r.holds.Released(ctx, held.Locks)
		a.unknown = append(a.unknown, unknown...)
	}
	if len(a.still) > 0 && owner != (tracer.Identity{}) {
		inherited := r.holds.Of(ctx, []tracer.Identity{owner}).Locks
		a.still = slices.DeleteFunc(a.still, func(l resources.Lock) bool {
			return slices.ContainsFunc(inherited, func(o resources.Lock) bool { return o.Same(&l) })
		})
	}
	if output == "" {
		return a
	}
	left, err := members(r.kernel, own)
	if err == nil {
		a.writers, err = r.holds.Writers(ctx, output, left)
	}
	if err != nil {
		a.unknown = append(a.unknown, "output: "+err.Error())
	}
	return a
}

// cameFrom are the sessions that may hold processes which this session started: itself,
// those nested in it, and those that hold processes handed over by these, kept or as
// the work of brokers.
func (r *Registry) cameFrom(id tracer.SessionID) map[tracer.SessionID]bool {
	own := map[tracer.SessionID]bool{id: true}
	for n := 0; n < len(own); {
		n = len(own)
		for other, x := range r.sessions {
			if own[x.info.Parent] || r.from(x, own) {
				own[other] = true
			}
		}
	}
	return own
}

// from reports whether the processes of a session came from one of own.
func (r *Registry) from(s *Session, own map[tracer.SessionID]bool) bool {
	return slices.ContainsFunc(r.hooks, func(h *Hooks) bool { return h.Origin != nil && own[h.Origin(r.view(), s)] })
}

// freed writes the state of the holdings after the end into a receipt.
func (r *Registry) freed(report *api.Report, s *Session) {
	a := s.after
	if a == nil {
		return
	}
	// The holders are in the list of what was held, not in that of what is free.
	had := make(map[string]tracer.Identity)
	for _, p := range a.held.Ports {
		had[p.String()] = p.Holder
	}
	for _, p := range a.freed.Ports {
		p.Holder = had[p.String()]
		report.PortsFreed = append(report.PortsFreed, document.Port(&p))
	}
	for _, p := range a.freed.Busy {
		report.PortsBusy = append(report.PortsBusy, document.Port(&p))
	}
	for _, w := range a.freed.Waits {
		p := document.Port(&w.Port)
		p.Connections = w.Connections
		report.PortsTimeWait = append(report.PortsTimeWait, p)
	}
	for _, l := range a.released {
		i := slices.IndexFunc(a.held.Locks, func(h resources.Lock) bool { return h.Kind == l.Kind && h.Path == l.Path })
		if i >= 0 {
			l.Holder, l.Waiting = a.held.Locks[i].Holder, a.held.Locks[i].Waiting
		}
		report.LocksReleased = append(report.LocksReleased, document.Lock(&l))
	}
	for _, l := range a.still {
		report.LocksHeld = append(report.LocksHeld, document.Lock(&l))
	}
	for _, w := range a.writers {
		p := api.Process{Ref: document.Ref(w)}
		if st, err := r.proc.Status(w.PID); err == nil {
			p.Comm = st.Name
		}
		report.OutputHeldBy = append(report.OutputHeldBy, p)
	}
	report.HoldsUnknown = a.unknown
}
