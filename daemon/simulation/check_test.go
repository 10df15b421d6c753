//go:build linux

package simulation

import (
	"slices"
	"testing/synctest"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// hooks check what a daemon says when it says it.
func (x *sim) hooks() *registry.Hooks {
	return &registry.Hooks{
		Opened: func(_ registry.View, s *registry.Session) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.all[s.ID()] = true
		},
		Reported: func(_ registry.View, s *registry.Session) {
			x.mu.Lock()
			defer x.mu.Unlock()
			verdict := s.Receipt().Verdict
			x.verdicts[verdict]++
			if all := x.told[s.ID()]; x.limited && slices.Contains(all, api.VerdictClean) {
				x.fail("the verdict of %v was clean, and is %v", s.ID(), verdict)
			}
			if x.told[s.ID()] = append(x.told[s.ID()], verdict); len(x.told[s.ID()]) > steps/2 {
				x.fail("%v is reported again and again: %v", s.ID(), verdict)
			}
			if verdict == api.VerdictClean {
				x.clean(s)
			}
		},
		Forgotten: func(_ registry.View, s *registry.Session) {
			x.mu.Lock()
			defer x.mu.Unlock()
			if s.Info().Agent && !s.Closed() {
				delete(x.all, s.ID()) // procfs is empty: the daemon lets an agent go of which it has lost the exec
			}
		},
		Closed: func(_ registry.View, s *registry.Session) {
			if i, err := x.k.Session(s.ID()); err == nil && i.State != tracer.StateEmpty {
				x.fail("%v is over for the daemon, and %v in the kernel", s.ID(), i.State)
			}
		},
	}
}

// clean checks a clean verdict: no member lives, nor is one being torn down, nor does anybody live whose birth was missed; and
// the receipt tells of all that were killed, unless it says that it does not.
func (x *sim) clean(s *registry.Session) {
	id := s.ID()
	for _, p := range x.k.Alive(id) {
		x.fail("the verdict of %v is clean, and %v lives", id, p)
	}
	if i, err := x.k.Session(id); err == nil && i.Dying > 0 {
		x.fail("the verdict of %v is clean, and %d are dying", id, i.Dying)
	}
	for p, in := range x.missed {
		if q := x.k.Proc(p.PID); in == id && q != nil && q.Identity == p && !q.Dead && q.Session == 0 {
			x.fail("the verdict of %v is clean, and %v, whose birth was missed, lives", id, p)
		}
	}
	killed := 0
	for _, sig := range x.k.Signals() {
		if q := x.k.Proc(sig.To.PID); sig.Kill && x.within[sig.To] == id && (q == nil || q.Identity != sig.To) {
			killed++
		}
	}
	if r := s.Receipt(); x.limited && !r.Truncated && r.Killed < killed {
		x.fail("%d of %v were killed, its receipt has %d", killed, id, r.Killed)
	}
}

func (x *sim) check() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.k.Records() {
		if s.State != tracer.StateActive && !x.let[s.ID] {
			x.caused(&s)
		}
	}
	for _, sent := range x.k.Sent() {
		x.fail("a signal was sent by handle: %+v", sent)
	}
	for _, p := range x.k.Alive(0) {
		q := x.k.Proc(p.PID)
		if q == nil || q.Identity != p {
			continue
		}
		if q.Session == 0 && q.Flags&(tracer.FlagKilled|tracer.FlagTermed) != 0 && !q.Entered {
			x.fail("%v was never a member, and was signalled", p)
		}
		if (q.Source == tracer.SourceEnv || q.Source == tracer.SourceCookie) && !x.worksFor(p, q.Session) {
			x.fail("%v is in %v, for which it does not work", p, q.Session)
		}
		x.within[p] = q.Session
	}
}

// worksFor reports whether a process may be in that session on evidence: it works for it, the session is for the one that it works
// for, its own exec has opened it, or it has been moved since.
func (x *sim) worksFor(p tracer.Identity, in tracer.SessionID) bool {
	id := x.work[p]
	return id != 0 && (in == id || in == 0 || x.kept[in] || x.let[id] ||
		slices.ContainsFunc(x.k.Records(), func(s tracer.SessionInfo) bool { return s.ID == in && (s.For == id || s.Root == p) }))
}

func (x *sim) caused(s *tracer.SessionInfo) {
	switch root := x.k.Proc(s.Root.PID); s.Cause {
	case tracer.CauseEnd:
		if !x.asked[s.ID] {
			x.fail("session %v ends, and nobody asked for that", s.ID)
		}
	case tracer.CauseRootExit:
		if root != nil && root.Identity == s.Root && !root.Dead {
			x.fail("session %v ends as if its root were dead", s.ID)
		}
	case tracer.CauseAncestor:
		if over, err := x.k.Session(s.For); s.For == 0 || err == nil && over.State == tracer.StateActive {
			x.fail("session %v ends with %v, which does not", s.ID, s.For)
		}
	case tracer.CauseReleased: // asked, or a keep that failed, or what may be no agent: procfs is empty
		if !s.Kept && !s.Agent && x.all[s.ID] { // or it could not be read when it was opened
			x.fail("nobody has let go of %v", s.ID)
		}
	case tracer.CauseMaxLifetime:
		if s.Expires == 0 || s.Expires > x.clock.Boottime() {
			x.fail("session %v ends before its time", s.ID)
		}
	default:
		x.fail("session %v ends for %v", s.ID, s.Cause)
	}
}

// heal ends all faults but those of processes, and refusals of one request.
func (x *sim) heal(but ...string) {
	for _, m := range failing {
		if !slices.Contains(but, m) {
			x.k.Fail(m, nil)
		}
	}
	x.refusing = false
	x.disk.mu.Lock()
	defer x.disk.mu.Unlock()
	x.disk.failing, x.disk.full = false, false
}

// settle: after the last fault every end has a verdict, even of what cannot be ended; and when it can be, what has to end
// has ended, each session that is over has one report, and the picture equals the kernel.
func (x *sim) settle() {
	x.heal()
	x.rest(patience)
	now := x.clock.Monotonic()
	x.mu.Lock()
	for _, s := range x.k.Records() {
		due := s.State == tracer.StateCondemned || s.State == tracer.StateEnding && uint64(now) > s.Deadline+uint64(patience)
		if due && len(x.told[s.ID]) == 0 {
			x.fail("%v is %v, and has no verdict", s.ID, s.State)
		}
	}
	x.mu.Unlock()
	for _, p := range x.k.Alive(0) {
		if synctest.Wait(); x.k.Proc(p.PID) != nil {
			x.k.Edit(p.PID, func(p *kerneltest.Proc) { p.Stubborn, p.IgnoreTerm = false, false })
		}
	}
	x.finish()
	x.rest(patience)
	x.over()
}

func (x *sim) over() {
	kernel := make(map[tracer.SessionID]bool)
	for _, s := range x.k.Records() {
		kernel[s.ID] = true
		root := x.k.Proc(s.Root.PID)
		switch {
		case s.State == tracer.StateActive && !s.KeepOnRootExit && (root == nil || root.Identity != s.Root || root.Dead):
			x.fail("the root of %v is dead, and it does not end", s.ID)
		case s.State == tracer.StateActive && s.Agent && s.Rule == 0:
			x.fail("an exec opened %v, and nobody has judged that", s.ID)
		case s.State == tracer.StateActive && s.For != 0 && !kernel[s.For]:
			x.fail("%v ended, and %v, which is for it, does not", s.For, s.ID)
		case s.State != tracer.StateActive && s.State != tracer.StateDissolved && !x.unreaped(s.ID):
			x.fail("%v is %v, and not released: %+v", s.ID, s.State, s)
		}
	}
	err := x.r.Read(func(v registry.View) {
		for s := range v.Sessions() {
			switch r := s.Receipt(); {
			case s.Closed() && r == nil:
				x.fail("%v is over without a report", s.ID())
			case !s.Closed() && !kernel[s.ID()]:
				x.fail("the daemon has %v, the kernel does not", s.ID())
			case !s.Closed():
				x.picture(v, s.ID())
				if x.kept[s.ID()] && x.steward.Origin(v, s) == 0 {
					x.fail("%v is kept, and the daemon has forgotten why", s.ID())
				}
			}
		}
		for id := range kernel {
			if i, err := x.k.Session(id); err == nil && i.State < tracer.StateEmpty && v.Session(id) == nil {
				x.fail("the kernel has %v, the daemon does not", id)
			}
		}
	})
	if err != nil {
		x.fail("no picture: %v", err)
	}
	for _, p := range x.found {
		if q := x.k.Proc(p.PID); q != nil && q.Identity == p && !q.Dead && q.Session == 0 {
			x.fail("%v, whose birth was missed, survives the end of its session", p)
		}
	}
	for id := range x.all {
		told, written := x.told[id], x.disk.ends[id]
		switch {
		case kernel[id] || x.let[id]:
		case len(told) == 0:
			x.fail("%v is over, and no daemon has given a verdict", id)
		case len(written) == 0 || written[len(written)-1] != told[len(told)-1]:
			x.fail("the verdicts of %v are %v, those on the disk %v", id, told, written)
		}
	}
}

// unreaped reports whether a session has a dead member that nobody has waited for.
func (x *sim) unreaped(id tracer.SessionID) bool {
	i, err := x.k.Session(id)
	return err == nil && i.Unreaped > 0
}

// picture compares the graph's live members of a session with the kernel's.
func (x *sim) picture(v registry.View, id tracer.SessionID) {
	want := make(map[tracer.Identity]bool)
	for _, p := range x.k.Alive(id) {
		if x.k.Proc(p.PID).Session == id {
			want[p] = true
		}
	}
	for p := range v.Graph().Members(id) {
		if n, ok := v.Graph().Node(p); ok && n.State.String() == "live" {
			if !want[p] {
				x.fail("the daemon has %v in %v, the kernel does not", p, id)
			}
			delete(want, p)
		}
	}
	for p := range want {
		n, ok := v.Graph().Node(p)
		x.fail("the kernel has %v in %v, the daemon does not: %+v %v", p, id, n, ok)
	}
}
