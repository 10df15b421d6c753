//go:build linux

package registry

import (
	"cmp"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
)

func (r *Registry) Judged(result enforcer.Result) {
	r.Do(func(t Tx) {
		s := t.Session(result.Session)
		if s == nil || s.closed {
			return
		}
		s.result = &result
		if !result.Gone && result.Info.ID == result.Session {
			s.update(result.Info)
		}
		r.conclude(s)
	})
}

// conclude writes the receipt once there is a verdict and every death before it has
// been booked.
func (r *Registry) conclude(s *Session) {
	if s.result == nil || s.closed {
		return
	}
	empty := s.info.State == tracer.StateEmpty || s.result.Gone
	if s.result == s.written && !empty {
		return
	}
	if empty && s.emptyAt == 0 && r.mayBeTold(s) {
		return
	}
	if empty && s.result.Verdict == api.VerdictLeft {
		return // it has become empty since: the enforcer will report that
	}
	if empty && s.emptyAt == 0 {
		s.emptyAt = r.o.Clock.Boottime()
	}
	if at := s.info.Emptied; empty && at != 0 && at < r.began {
		s.emptyAt = at // it became empty while no daemon ran, and this daemon found that only now
	}
	s.receipt.LeftOver = s.LeftOver()
	report := s.receipt.Report(s.told(), s.joined, r.took(s), s.result)
	report.EndedBy = s.by()
	if empty {
		report.Ended = r.o.Clock.Wall(s.emptyAt)
	}
	if r.view().concluding(s, report) {
		return
	}
	s.report = report
	record := r.view().Record(s)
	r.view().describe(s.report, s, record)
	s.report.Delegated = r.view().Encoder().Delegated(&record.Work, access.Caller{})
	r.view().notify(s, func(h *Hooks) sessionHook { return h.Reported })
	r.view().Save(s)
	r.o.Log.Info().Str(system.KeySession, s.report.Session).Str(system.KeyReason, s.report.EndReason).
		Str(system.KeyVerdict, string(s.report.Verdict)).Str(system.KeyWhy, s.report.VerdictWhy).
		Int(system.KeyKilled, s.report.Killed).Int(system.KeyLeft, s.report.Left).
		Int(system.KeyFreed, len(s.report.PortsFreed)).
		Int(system.KeyBusy, len(s.report.PortsBusy)).
		Float64(system.KeyDuration, s.report.DurationMS).Msg("session ended")
	if s.written == nil {
		m := &r.counts.meter
		m.Ends[system.EndMetrics{Reason: s.report.EndReason, Verdict: string(s.report.Verdict)}]++
		m.Took.Observe(r.took(s).Seconds())
		close(s.over)
	}
	s.written = s.result
	if empty {
		r.close(s)
	}
}

// mayBeTold reports whether the kernel's event that the session is empty may still
// come: on a busy host it is far behind. Until there is a receipt each look brings
// another verdict; one look comes as soon as the patience is over.
func (r *Registry) mayBeTold(s *Session) bool {
	now := max(r.o.Clock.Monotonic(), 1)
	if s.waits.foundEmpty == 0 {
		s.waits.foundEmpty = now
		id := s.info.ID
		time.AfterFunc(emptyPatience, func() { r.o.Enforcer.Watch(id) })
	}
	if s.waits.quietSince == 0 || s.waits.heard != r.counts.heard {
		s.waits.quietSince, s.waits.heard = now, r.counts.heard
	}
	if r.counts.lost > s.lost {
		return now-s.waits.foundEmpty < emptyPatience
	}
	return now-s.waits.quietSince < emptyPatience && now-s.waits.foundEmpty < lagPatience
}

// took is how long the end took, up to now if it is not over.
func (r *Registry) took(s *Session) time.Duration {
	at := cmp.Or(s.emptyAt, r.o.Clock.Boottime())
	if s.info.EndedAt == 0 || at < s.info.EndedAt {
		return 0
	}
	return time.Duration(at - s.info.EndedAt)
}

// close releases the kernel's record and keeps the session among the ended
// ones.
func (r *Registry) close(s *Session) {
	s.closed = true
	r.view().notify(s, func(h *Hooks) sessionHook { return h.Closed })
	r.view().Changed(s.info.ID)
	s.info.State = tracer.StateEmpty
	s.info.Live = 0
	r.o.Enforcer.Forget(s.info.ID)
	if !s.result.Gone {
		r.release(s.info.ID)
	}
	r.view().Save(s)
	r.ended.Book(s.info.UID, -s.receipt.Size())
	s.receipt = enforcer.Receipt{} // the report has it all
	r.ended.Add(s, s.info.UID, enforcer.ReportSize(s.report))
}

func (r *Registry) drop(s *Session) {
	id, parent := s.info.ID, s.info.Parent
	delete(r.sessions, id)
	delete(r.nested, id)
	if n := slices.DeleteFunc(r.nested[parent],
		func(n tracer.SessionID) bool { return n == id }); len(n) > 0 {
		r.nested[parent] = n
	} else {
		delete(r.nested, parent)
	}
	r.ended.Book(s.info.UID, -s.receipt.Size()) // of one that has not ended
	r.view().Changed(id)
	r.view().notify(s, func(h *Hooks) sessionHook { return h.Forgotten })
}

// by is the caller that asked for the end, nil if it had already begun for another cause.
func (s *Session) by() *api.Caller {
	if !s.info.Cause.Asked() {
		return nil
	}
	return s.endedBy
}

// Asked notes who has asked for the ends of sessions, and why. The guards come before, and the kernel is asked to begin after.
func (r *Registry) Asked(ids []tracer.SessionID, by *api.Caller, record *access.AuditCaller) error {
	return r.Update(func(t Tx) {
		for _, id := range ids {
			if x := t.Session(id); x != nil {
				t.asked(x, by, record)
			}
		}
	})
}
