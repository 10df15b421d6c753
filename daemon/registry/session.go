//go:build linux

package registry

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// emptyPatience is how long a verdict waits for the kernel's event that the session is
// empty, which comes after the exits of its members, if no other event comes in;
// lagPatience, if there are always more to read. After that it is taken as lost.
const (
	emptyPatience = time.Second
	lagPatience   = 30 * emptyPatience
)

// MaxDepth bounds a walk through sessions around each other. It is more than the kernel
// nests, because the history has sessions that the kernel no longer has.
const MaxDepth = 2 * tracer.MaxDepth

// Session is what the daemon adds to the kernel's record.
type Session struct {
	info    tracer.SessionInfo // as last reported; the counts may be old
	endedBy *api.Caller
	// endCaller is the same for the audit log.
	endCaller *access.AuditCaller
	receipt   enforcer.Receipt
	lost      uint64           // events that were lost before it began
	written   *enforcer.Result // the result that report is about

	rootDied uint64 // boottime, as far as we know; 0: it lives
	emptyAt  uint64 // boottime at which the kernel says that it was empty, 0: not yet

	result *enforcer.Result
	waits  waits
	report *api.Report   // with a verdict
	over   chan struct{} // closed with the first verdict
	closed bool          // the kernel's record is released

	usage
}

// waits is how long a verdict has waited for the kernel's event that the session is empty.
type waits struct {
	// foundEmpty is when a verdict first found it empty and the kernel's event had not
	// come, 0: never.
	foundEmpty time.Duration
	quietSince time.Duration // since then no event came in, as of the last verdict
	heard      uint64        // of the registry, at that time
}

// usage is what the graph does not have of it.
type usage struct {
	zombies   int             // as of the last look
	cpuDead   time.Duration   // of the members whose exits were reported
	joined    int             // members that ran when they were entered, without the root
	continued *lineage.Signal // the last SIGCONT of another process to a member, while paused
	// lastEvent is the boottime of the last event, 0: none since the daemon began.
	lastEvent uint64
	timeout   time.Duration // after which its owner ends its root; 0: never
}

func (s *Session) ID() tracer.SessionID { return s.info.ID }

// Info is the kernel's record as last reported; the counts may be old. Of no session it is empty.
func (s *Session) Info() (info tracer.SessionInfo) {
	if s != nil {
		info = s.info
	}
	return info
}

// SetTimeout sets how long its owner lets its root run.
func (s *Session) SetTimeout(d time.Duration) { s.timeout = d }

// told is the kernel's record, for users: if its owner ended the root, the time limit is the cause.
func (s *Session) told() tracer.SessionInfo {
	info := s.info
	if info.Cause == tracer.CauseRootExit && s.timeout != 0 &&
		info.EndedAt-info.Created >= uint64(s.timeout) {
		info.Cause = tracer.CauseMaxLifetime
	}
	return info
}

// Closed reports whether the session has ended, and its record is released.
func (s *Session) Closed() bool { return s.closed }

// Active reports whether it has not begun to end, as far as the kernel has reported.
func (s *Session) Active() bool { return !s.closed && s.info.State == tracer.StateActive }

// RootDied is when its root died, boottime; 0: it lives.
func (s *Session) RootDied() uint64 { return s.rootDied }

// LeftOver reports whether its members are leftovers: the root died before the end began, or by its
// exit began the end. A root that the end itself killed left nothing over.
func (s *Session) LeftOver() bool {
	return s.rootDied != 0 && (s.info.EndedAt == 0 || s.info.Cause == tracer.CauseRootExit ||
		s.rootDied < s.info.EndedAt)
}

// Emptied is when the last member was gone, boottime; 0: not yet.
func (s *Session) Emptied() uint64 { return s.emptyAt }

// Zombies counts its dead members that their parent has not waited for, as of the last look.
func (s *Session) Zombies() int { return s.zombies }

// Over is closed with the first verdict.
func (s *Session) Over() <-chan struct{} { return s.over }

// Receipt is its report, nil before the first verdict. It is never changed: a better
// one replaces it.
func (s *Session) Receipt() *api.Report { return s.report }

// EndCaller is the caller that asked for the end, nil if the end has another cause.
func (s *Session) EndCaller() *access.AuditCaller {
	if !s.info.Cause.Asked() {
		return nil
	}
	return s.endCaller
}

// update takes the kernel's record. An event may have been ahead of it.
func (s *Session) update(info tracer.SessionInfo) {
	if info.State < s.info.State {
		info.State, info.Cause, info.EndedAt = s.info.State, s.info.Cause, s.info.EndedAt
	}
	s.info = info
	if info.EndedAt != 0 {
		s.receipt.Ending(int(info.Live))
	}
}

// Usage is what the members of a session use, without those of nested sessions: memory and
// CPU time, of the live as of the last look, of the dead as they exited, and how many were
// forked.
func (v View) Usage(s *Session) enforcer.Usage {
	n := v.r.graph.Count(s.info.ID)
	return enforcer.Usage{RSS: n.RSS, CPU: s.cpuDead + time.Duration(n.CPUTime), Births: s.info.Forks}
}

// sessionOf returns the record of a session. The kernel is asked for one that the
// daemon did not open itself, or that is older than the daemon.
func (r *Registry) sessionOf(id tracer.SessionID) *Session {
	if id == 0 {
		return nil
	}
	if s := r.sessions[id]; s != nil {
		return s
	}
	if slices.Contains(r.gone, id) || r.looks.unreleased[id] || r.canaries.find(id) != nil {
		return nil
	}
	info, err := r.o.Kernel.Session(id)
	switch {
	case errors.Is(err, tracer.ErrNotFound) || err == nil && info.State == tracer.StateDissolved:
		r.isGone(id)
		return nil
	case err != nil: // the next look asks again
		r.unheard[id] = true
		r.AskResync(CauseMember)
		return nil
	}
	if Hidden(info) {
		r.canaries.add(id)
		return nil
	}
	return r.enter(info)
}

// isGone remembers that a session was released: its last events come after that, and so
// does a look at the kernel that began before. The last 64 are enough.
func (r *Registry) isGone(id tracer.SessionID) {
	if len(r.gone) >= 64 {
		r.gone = r.gone[1:]
	}
	r.gone = append(r.gone, id)
	delete(r.unheard, id)
}

// enter begins to hold a session; if it is ending already, the enforcer watches it.
func (r *Registry) enter(info tracer.SessionInfo) *Session {
	r.loop.changing = true // by a Read, too: see View.Ask
	s := &Session{info: info, over: make(chan struct{}), lost: r.counts.lost}
	r.sessions[info.ID] = s
	if info.Parent != 0 {
		r.nested[info.Parent] = append(r.nested[info.Parent], info.ID)
	}
	system.Offer(r.looks.begun, struct{}{})
	r.view().Changed(info.ID)
	if hasDied(r.o.Kernel, info.Root) {
		s.rootDied = r.foundDead(&info)
	}
	if m := r.memories[info.ID]; m != nil {
		delete(r.memories, info.ID)
		r.view().restore(s, m)
	}
	if r.unheard[info.ID] || info.Created < r.counts.lostAt {
		delete(r.unheard, info.ID)
		s.receipt.Gap()
	}
	r.view().notify(s, func(h *Hooks) sessionHook { return h.Opened })
	r.view().Save(s)
	if info.State != tracer.StateActive || info.Paused != 0 || s.rootDied != 0 {
		r.o.Enforcer.Watch(info.ID)
	}
	return s
}

func (r *Registry) sessionEvent(s *Session, ev *tracer.Event) {
	if ev.Cause == tracer.CauseReleased {
		return // a dissolved session has nothing to report
	}
	if ev.State < tracer.StateEnding {
		if ev.Cause != tracer.CauseNone {
			r.watch[s.info.ID] = true // a pass has to begin the end
		}
		return
	}
	r.view().Changed(s.info.ID)
	s.info.State = max(s.info.State, ev.State)
	if s.info.Cause == tracer.CauseNone {
		s.info.Cause = ev.Cause
	}
	s.info.EndedAt = cmp.Or(s.info.EndedAt, ev.Time)
	ev.Cause = s.told().Cause // for readers
	if ev.State < tracer.StateEmpty {
		r.view().notify(s, func(h *Hooks) sessionHook { return h.Ending })
	}
	r.watch[s.info.ID] = true
	if ev.State == tracer.StateEmpty && s.emptyAt == 0 {
		s.emptyAt = ev.Time
		r.conclude(s)
	}
}

// died books the exit of a member: in the receipt if its session ends or it
// was signalled.
func (r *Registry) died(s *Session, ev *tracer.Event) {
	s.cpuDead += time.Duration(ev.CPUTime)
	r.view().notifyEvent(s, ev, func(h *Hooks) eventHook { return h.Exited })
	signalled := ev.Flags&(tracer.FlagTermed|tracer.FlagKilled) != 0
	root := ev.Process == s.info.Root
	// The record may be ahead of the events: the time shows whether this death came
	// after the end began.
	ending := s.info.EndedAt != 0 && ev.Time >= s.info.EndedAt &&
		!(root && s.info.Cause == tracer.CauseRootExit)
	leftover := s.LeftOver() && ev.Time >= s.rootDied && !root
	if ending || signalled || leftover {
		d := api.Outcome{
			Ref:      document.Ref(ev.Process),
			Leftover: leftover,
			Killer:   document.Killer(r.view().Encoder().Clock, ev.Process, "", ev.Flags, ev.Signal),
		}
		if n, ok := r.graph.Node(ev.Process); ok {
			d.Comm, d.Argv = n.Comm.String(), n.Argv
		}
		s.receipt.Died(d, ev.Flags, func(n int) bool { return r.ended.Take(s.info.UID, n) })
	}
	if root {
		s.rootDied = ev.Time
		r.view().notify(s, func(h *Hooks) sessionHook { return h.RootDied })
	}
	if s.rootDied != 0 || s.info.State != tracer.StateActive {
		r.watch[s.info.ID] = true
	}
}

// moved notes in the receipt of a session that a process is in another one now.
func (r *Registry) moved(from tracer.SessionID, id tracer.Identity, o api.Outcome) {
	if s := r.sessions[from]; s != nil && s.Active() {
		n, _ := r.graph.Node(id)
		o.Ref, o.Comm, o.Argv = document.Ref(id), n.Comm.String(), n.Argv
		s.receipt.Add(o, func(n int) bool { return r.ended.Take(s.info.UID, n) })
		r.view().Save(s)
	}
}

// stirs has the enforcer look at a paused session with a member that may run: one that somebody
// continued, or that was entered other than by a fork that its hook saw.
func (r *Registry) stirs(s *Session, ev *tracer.Event) {
	if s == nil || ev.Type != tracer.EventContinue && ev.Type != tracer.EventBirth {
		return
	}
	for id := range r.view().Chain(s.info.ID) {
		if in := r.sessions[id]; in != nil && in.info.Paused != 0 {
			r.watch[id] = true
			if ev.Type == tracer.EventContinue {
				s.continued = ev.Signal
			}
		}
		r.view().Changed(id)
	}
}
