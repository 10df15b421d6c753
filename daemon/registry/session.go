//go:build linux

package registry

import (
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/audit"
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

// MaxDepth bounds a walk through sessions around each other. It is more than the
// kernel nests, because the history has some that the kernel no longer has.
const MaxDepth = 2 * tracer.MaxDepth

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

	usage
}

// usage is of the last sample, and of those that died since the daemon began.
type usage struct {
	zombies int
	rss     uint64
	cpu     time.Duration
	cpuDead time.Duration
}

// ID is the kernel's name of the session.
func (s *Session) ID() tracer.SessionID { return s.info.ID }

// Info is the kernel's record as last told; the counts may be old.
func (s *Session) Info() tracer.SessionInfo { return s.info }

// Closed reports whether the session is over, and its record released.
func (s *Session) Closed() bool { return s.closed }

// Active reports whether it has not begun to end, as far as the kernel has said.
func (s *Session) Active() bool { return !s.closed && s.info.State == tracer.StateActive }

// RootDied is when its root died, boottime; 0: it lives.
func (s *Session) RootDied() uint64 { return s.rootDied }

// Emptied is when the last member was gone, boottime; 0: not yet.
func (s *Session) Emptied() uint64 { return s.emptyAt }

// Over is closed with the first verdict.
func (s *Session) Over() <-chan struct{} { return s.over }

// Receipt is its report, nil before the first verdict. It is not changed: a better one
// takes its place.
func (s *Session) Receipt() *api.Report { return s.report }

// EndCaller is who asked for the end, nil if nobody did.
func (s *Session) EndCaller() *audit.Caller { return s.endCaller }

// Usage is what its members use, as of the last look: memory, CPU time with that of the
// dead, and how many were forked.
func (s *Session) Usage() enforcer.Usage {
	return enforcer.Usage{RSS: s.rss, CPU: s.cpu + s.cpuDead, Births: s.info.Forks}
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
	if slices.Contains(o.gone, id) || o.canaries.find(id) != nil {
		return nil
	}
	info, err := o.kernel.Session(id)
	if err != nil || info.State == tracer.StateDissolved {
		o.isGone(id)
		return nil
	}
	if o.hidden(info) {
		o.canaries.add(id)
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
	o.view().Changed(info.ID)
	if output, err := o.holds.Output(info.Root); err == nil {
		s.output = output
	}
	if hasDied(o.kernel, info.Root) {
		s.rootDied = o.foundDead(&info)
	}
	if m := o.memories[info.ID]; m != nil {
		delete(o.memories, info.ID)
		o.view().restore(s, m)
	}
	o.view().notify(s, func(h *Hooks) sessionHook { return h.Opened })
	o.view().Save(s)
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
				h.Ending(o.view(), s, ev.Cause)
			}
		}
	}
	o.view().Changed(s.info.ID)
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
	o.view().notifyEvent(s, ev, func(h *Hooks) eventHook { return h.Exited })
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
		o.view().notify(s, func(h *Hooks) sessionHook { return h.RootDied })
		o.wake(s)
	}
	if s.rootDied != 0 || s.info.State != tracer.StateActive {
		o.watch[s.info.ID] = true
	}
}

// live counts the sessions that are not over.
func (o *Registry) live() int { return len(o.sessions) - len(o.ended) }
