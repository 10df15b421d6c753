//go:build linux

package registry

import (
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
)

// wake continues the owner, whose command is dead, if it is stopped.
func (o *Registry) wake(s *Session) {
	if s.info.Owner.PID == 0 {
		return
	}
	if err := o.enforcer.Wake(s.info.Owner); err != nil {
		o.log.Warn().Err(err).Str(logging.KeySession, s.info.ID.String()).Uint32(logging.KeyPID, s.info.Owner.PID).Msg("stopped owner not continued")
	}
}

// Judged takes the enforcer's result.
func (o *Registry) Judged(r enforcer.Result) { _ = o.do(func() { o.judged(r) }) }

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
	if empty && s.result.Verdict == api.VerdictLeft {
		return // it has become empty since: the enforcer will say so
	}
	if empty && s.emptyAt == 0 {
		s.emptyAt = o.clock.Boottime()
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
	if empty {
		s.report.Ended = o.clock.Wall(s.emptyAt)
	}
	if o.lost > s.lost {
		s.report.Truncated = true // an exit may be among the lost
	}
	record := o.view().Record(s)
	o.view().describe(s.report, record)
	s.report.Brokered = o.view().Encoder().Brokered(&record.Work, access.Caller{})
	o.view().notify(s, func(h *Hooks) sessionHook { return h.Reported })
	o.view().Save(s)
	o.log.Info().Str(logging.KeySession, s.report.Session).Str(logging.KeyReason, s.report.EndReason).
		Str(logging.KeyVerdict, string(s.report.Verdict)).Str(logging.KeyWhy, s.report.VerdictWhy).
		Int(logging.KeyKilled, s.report.Killed).Int(logging.KeyLeft, s.report.Left).Int(logging.KeyFreed, len(s.report.PortsFreed)).
		Int(logging.KeyBusy, len(s.report.PortsBusy)).Float64(logging.KeyDuration, s.report.DurationMS).Msg("session ended")
	if !s.told {
		o.meter.over(s.report.EndReason, string(s.report.Verdict), o.took(s))
		close(s.over)
		s.told = true
	}
	s.written, s.after = s.result, nil // of what is left somebody has to look again
	if empty {
		o.close(s)
	}
}

// mayBeTold tells whether the kernel's word that the session is empty may still
// come: on a busy host it is far behind. Until there is a receipt each
// look brings another verdict; one look comes as soon as the patience is over.
func (o *Registry) mayBeTold(s *Session) bool {
	now := max(o.clock.Monotonic(), 1)
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
		at = o.clock.Boottime()
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
	o.view().notify(s, func(h *Hooks) sessionHook { return h.Closed })
	o.view().Changed(s.info.ID)
	s.info.State = tracer.StateEmpty
	s.info.Live = 0
	o.enforcer.Forget(s.info.ID)
	if !s.result.Gone {
		o.release(s.info.ID)
	}
	o.view().Save(s)
	o.ended = append(o.ended, s)
	s.holdings = holdings{}
	o.outcomes += named(s.report)
	for len(o.ended) > MaxEnded || o.outcomes > maxOutcomes && len(o.ended) > 1 {
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
	o.view().Changed(id)
	o.view().notify(s, func(h *Hooks) sessionHook { return h.Forgotten })
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
