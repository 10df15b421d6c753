//go:build linux

package daemon

import (
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/audit"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
)

// emptyPatience is how long a verdict waits for the kernel's word that the
// session is empty, which comes behind the exits of its members, when no event
// comes in; lagPatience, when there are always more to read. After that it is
// taken as lost.
const (
	emptyPatience = time.Second
	lagPatience   = 30 * emptyPatience
)

// maxDepth is deeper than the kernel nests.
const maxDepth = 16

// Session is what the daemon adds to the kernel's record.
type Session struct {
	info    tracer.SessionInfo // as last told; the counts may be old
	endedBy *api.Caller
	// endCaller is the same for the audit log.
	endCaller *audit.Caller
	receipt   enforcer.Receipt
	lost      uint64 // events that were lost before it began
	holdings
	written *enforcer.Result // that report is about

	rootDied uint64 // boottime, as far as we know; 0: it lives
	emptyAt  uint64 // boottime of the kernel's word that it is empty, 0: not yet

	result *enforcer.Result
	// foundEmpty is when a verdict first found it empty and the kernel's word of
	// that had not come, 0: never.
	foundEmpty time.Duration
	quietSince time.Duration // since then no event came in, as of the last verdict
	heard      uint64        // of the registry, at that time
	report     *api.Report   // with a verdict
	over       chan struct{} // closed with the first verdict
	told       bool          // over is closed
	closed     bool          // the kernel's record is released

	// Of the last sample, and of those that died since the daemon began.
	zombies int
	rss     uint64
	cpu     time.Duration
	cpuDead time.Duration
}

// sessionOf gives the record of a session. One that the daemon did not open
// itself, or that is older than the daemon, is asked for.
func (o *Registry) sessionOf(id tracer.SessionID) *Session {
	if id == 0 {
		return nil
	}
	if s := o.sessions[id]; s != nil {
		return s
	}
	if slices.Contains(o.gone, id) || o.hides(id) != nil {
		return nil
	}
	info, err := o.kernel.Session(id)
	if err != nil || info.State == tracer.StateDissolved {
		o.isGone(id)
		return nil
	}
	if o.hidden(info) {
		o.hide(id)
		return nil
	}
	return o.enter(info)
}

// isGone remembers that a session was released: its last events come behind
// that, and a look at the kernel that began before it. The last 64 are enough.
func (o *Registry) isGone(id tracer.SessionID) {
	if len(o.gone) >= 64 {
		o.gone = o.gone[1:]
	}
	o.gone = append(o.gone, id)
}

// enter begins to hold a session; one that ends already is watched.
func (o *Registry) enter(info tracer.SessionInfo) *Session {
	s := &Session{info: info, over: make(chan struct{}), lost: o.lost}
	o.sessions[info.ID] = s
	if info.Parent != 0 {
		o.nested[info.Parent] = append(o.nested[info.Parent], info.ID)
	}
	o.changed(info.ID)
	if output, err := o.holds.Output(info.Root); err == nil {
		s.output = output
	}
	if hasDied(o.kernel, info.Root) {
		s.rootDied = o.foundDead(&info)
	}
	if m := o.memories[info.ID]; m != nil {
		delete(o.memories, info.ID)
		o.restore(s, m)
	}
	o.notify(s, func(h *Hooks) sessionHook { return h.Opened })
	o.save(s)
	if info.State != tracer.StateActive || s.rootDied != 0 {
		o.enforcer.Watch(info.ID)
	}
	return s
}

// sessionEvent takes the kernel's word on a session's state.
func (o *Registry) sessionEvent(s *Session, ev *tracer.Event) {
	if ev.Cause == tracer.CauseReleased {
		return // of one that is let go of there is nothing to report
	}
	if ev.State < tracer.StateEnding {
		if ev.Cause != tracer.CauseNone {
			o.watch[s.info.ID] = true // a pass has to begin the end
		}
		return
	}
	if s.info.State == tracer.StateActive {
		for _, h := range o.hooks {
			if h.Ending != nil {
				h.Ending(View{o}, s, ev.Cause)
			}
		}
	}
	o.changed(s.info.ID)
	if ev.State < tracer.StateEmpty {
		o.askHeld(s.info.ID)
	}
	s.info.State = max(s.info.State, ev.State)
	if s.info.Cause == tracer.CauseNone {
		s.info.Cause = ev.Cause
	}
	if s.info.EndedAt == 0 {
		s.info.EndedAt = ev.Time
	}
	o.watch[s.info.ID] = true
	if ev.State == tracer.StateEmpty && s.emptyAt == 0 {
		s.emptyAt = ev.Time
		o.conclude(s)
	}
}

// died books the exit of a member: in the receipt if its session ends or it
// was signalled.
func (o *Registry) died(s *Session, ev *tracer.Event) {
	s.cpuDead += time.Duration(ev.CPUTime)
	o.notifyEvent(s, ev, func(h *Hooks) eventHook { return h.Exited })
	signalled := ev.Flags&(tracer.FlagTermed|tracer.FlagKilled) != 0
	root := ev.Process == s.info.Root
	// The record may be ahead of the events: the time tells whether this death
	// came after the end began.
	ending := s.info.EndedAt != 0 && ev.Time >= s.info.EndedAt &&
		!(root && s.info.Cause == tracer.CauseRootExit)
	leftover := s.rootDied != 0 && ev.Time >= s.rootDied && !root
	if ending || signalled || leftover {
		d := enforcer.Death{ID: ev.Process, Flags: ev.Flags, Leftover: leftover}
		if n, ok := o.graph.Node(ev.Process); ok {
			d.Comm, d.Argv = n.Comm, n.Argv
		}
		s.receipt.Died(d)
	}
	if root {
		s.rootDied = ev.Time
		o.notify(s, func(h *Hooks) sessionHook { return h.RootDied })
		o.wake(s)
	}
	if s.rootDied != 0 || s.info.State != tracer.StateActive {
		o.watch[s.info.ID] = true
	}
}

// wake continues the owner, whose command is dead, if it is stopped.
func (o *Registry) wake(s *Session) {
	if s.info.Owner.PID == 0 {
		return
	}
	if err := o.enforcer.Wake(s.info.Owner); err != nil {
		o.log.Warn().Err(err).Str(logging.KeySession, s.info.ID.String()).Uint32(logging.KeyPID, s.info.Owner.PID).Msg("stopped owner not continued")
	}
}

// judged takes the enforcer's result.
func (o *Registry) judged(r enforcer.Result) {
	s := o.sessions[r.Session]
	if s == nil || s.closed {
		return
	}
	s.result = &r
	if !r.Gone && r.Info.ID == r.Session {
		state := s.info.State
		s.info = r.Info
		s.info.State = max(state, r.Info.State)
	}
	o.conclude(s)
}

// conclude writes the receipt when there is a verdict and everything that
// died before it has been booked.
func (o *Registry) conclude(s *Session) {
	if s.result == nil || s.closed {
		return
	}
	empty := s.info.State == tracer.StateEmpty || s.result.Gone
	if s.result == s.written && !empty {
		return
	}
	if empty && s.emptyAt == 0 && o.mayBeTold(s) {
		return
	}
	if empty && s.result.Verdict == enforcer.Left {
		return // it has become empty since: the enforcer will say so
	}
	if empty && s.emptyAt == 0 {
		s.emptyAt = o.clock.boottime()
	}
	if at := s.info.Emptied; empty && at != 0 && at < o.began {
		s.emptyAt = at // while no daemon ran, and this one only found it so
	}
	if !o.settled(s, empty) {
		return
	}
	s.report = s.receipt.Report(s.info, o.took(s), s.result)
	o.freed(s.report, s)
	s.report.EndedBy = s.by()
	if o.lost > s.lost {
		s.report.Truncated = true // an exit may be among the lost
	}
	record := o.sessionRecord(s)
	o.describe(s.report, record)
	s.report.Brokered = o.encoder().Brokered(&record.Work, access.Caller{})
	o.notify(s, func(h *Hooks) sessionHook { return h.Reported })
	o.save(s)
	o.log.Info().Str(logging.KeySession, s.report.Session).Str(logging.KeyReason, s.report.EndReason).
		Str(logging.KeyVerdict, s.report.Verdict).Str(logging.KeyWhy, s.report.VerdictWhy).
		Int(logging.KeyKilled, s.report.Killed).Int(logging.KeyLeft, s.report.Left).Int(logging.KeyFreed, len(s.report.PortsFreed)).
		Int(logging.KeyBusy, len(s.report.PortsBusy)).Float64(logging.KeyDuration, s.report.DurationMS).Msg("session ended")
	if !s.told {
		o.meter.over(s.report.EndReason, s.report.Verdict, o.took(s))
		close(s.over)
		s.told = true
	}
	s.written, s.after = s.result, nil // of what is left somebody has to look again
	if empty {
		o.close(s)
	}
}

// mayBeTold tells whether the kernel's word that the session is empty may still
// come: on a busy host it is far behind. As long as there is no receipt each
// look brings another verdict; one look comes as soon as the patience is over.
func (o *Registry) mayBeTold(s *Session) bool {
	now := max(o.clock.monotonic(), 1)
	if s.foundEmpty == 0 {
		s.foundEmpty = now
		id := s.info.ID
		time.AfterFunc(emptyPatience, func() { o.enforcer.Watch(id) })
	}
	if s.quietSince == 0 || s.heard != o.heard {
		s.quietSince, s.heard = now, o.heard
	}
	if o.lost > s.lost {
		return now-s.foundEmpty < emptyPatience
	}
	return now-s.quietSince < emptyPatience && now-s.foundEmpty < lagPatience
}

// took is how long the end took, up to now if it is not over.
func (o *Registry) took(s *Session) time.Duration {
	at := s.emptyAt
	if at == 0 {
		at = o.clock.boottime()
	}
	if s.info.EndedAt == 0 || at < s.info.EndedAt {
		return 0
	}
	return time.Duration(at - s.info.EndedAt)
}

// close releases the kernel's record and keeps the session among the ended
// ones.
func (o *Registry) close(s *Session) {
	s.closed = true
	o.wake(s) // it may have stopped only now
	o.notify(s, func(h *Hooks) sessionHook { return h.Closed })
	o.changed(s.info.ID)
	s.info.State = tracer.StateEmpty
	s.info.Live = 0
	o.enforcer.Forget(s.info.ID)
	if !s.result.Gone {
		o.release(s.info.ID)
	}
	o.save(s)
	o.ended = append(o.ended, s)
	s.holdings = holdings{}
	o.outcomes += named(s.report)
	for len(o.ended) > maxEnded || o.outcomes > maxOutcomes && len(o.ended) > 1 {
		old := o.ended[0]
		o.ended[0] = nil
		o.ended = o.ended[1:]
		o.outcomes -= named(old.report)
		o.drop(old)
		o.graph.Forget(old.info.ID)
	}
}

// drop forgets a session that is over.
func (o *Registry) drop(s *Session) {
	id, parent := s.info.ID, s.info.Parent
	delete(o.sessions, id)
	delete(o.nested, id)
	if n := slices.DeleteFunc(o.nested[parent], func(n tracer.SessionID) bool { return n == id }); len(n) > 0 {
		o.nested[parent] = n
	} else {
		delete(o.nested, parent)
	}
	o.changed(id)
	o.notify(s, func(h *Hooks) sessionHook { return h.Forgotten })
}

// named is how many processes, ports and locks a receipt names.
func named(r *api.Report) int {
	return len(r.Processes) + len(r.PortsFreed) + len(r.PortsBusy) + len(r.PortsTimeWait) + len(r.LocksReleased) + len(r.LocksHeld)
}

// by is who asked for the end; whoever asked when it had begun did not.
func (s *Session) by() *api.Caller {
	if s.info.Cause != tracer.CauseEnd {
		return nil
	}
	return s.endedBy
}

// live counts the sessions that are not over.
func (o *Registry) live() int { return len(o.sessions) - len(o.ended) }

// scope is a session as access sees it.
func (o *Registry) scope(s *Session) access.Scope {
	return access.Scope{UID: s.info.UID, Chain: o.chain(s.info.ID)}
}

// chain is a session, then those that it is nested in, from the inside out.
func (o *Registry) chain(id tracer.SessionID) (chain []tracer.SessionID) {
	for id != 0 && len(chain) < maxDepth {
		chain = append(chain, id)
		s := o.sessions[id]
		if s == nil {
			break
		}
		id = s.info.Parent
	}
	return chain
}

// within reports whether a session is ancestor or nested in it.
func (o *Registry) within(id, ancestor tracer.SessionID) bool {
	for range maxDepth {
		if id == ancestor {
			return true
		}
		s := o.sessions[id]
		if s == nil || s.info.Parent == 0 {
			return false
		}
		id = s.info.Parent
	}
	return false
}

// family is a session and those nested in it.
func (o *Registry) family(id tracer.SessionID) []tracer.SessionID {
	all := []tracer.SessionID{id}
	for i := 0; i < len(all); i++ {
		all = append(all, o.nested[all[i]]...)
	}
	return all
}
