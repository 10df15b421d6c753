package protocol

import "slices"

// Each task is running, or stopped by SIGSTOP of ours, or by another signal.
const (
	stoppedByUs uint8 = iota + 1
	stoppedByOthers
)

func init() {
	type x = *run
	tell([]stepRow{
		{stopFlag, rRet, "notes that it stops a task", x.stopFlag},
		{stopSend, rRet, "sends SIGSTOP to a task", x.stopSend},
		{stopAgain, rRet, "notes it again", x.stopFlag},
		{stopLook, rRet, "reads the pause again, after SIGSTOP", x.stopLook},
		{resumeFlag, rRet, "takes the note away", x.resumeFlag},
		{resumeSend, rRet, "sends SIGCONT to a task", x.resumeSend},
		{resumeLook, rRet, "reads the pause again, after SIGCONT", x.resumeLook},
	})
}

// pauseVerb is pause() and resume() of pause.h: the word of the record. A pass follows.
func (x *run) pauseVerb(id uint8, on bool) bool {
	k := x.side()
	begun := k.some(id, func(p *session) bool { return p.state != active && p.state != dissolved })
	p := &k.sessions[id]
	if p.paused == on || on && (begun || p.state != active) {
		return false
	}
	p.paused, x.c.at = on, passTake
	return true
}

// stop begins to stop a task that a program sees in a paused session; then it continues there, or leaves.
func (x *run) stop(t uint8, then label) {
	x.c.walk, x.c.after, x.c.at = t+1, then, stopFlag
}

// stopFlag is set_flags() ahead of SIGSTOP, and again after it: a resume may have taken the flag away.
func (x *run) stopFlag() {
	c, s, k := x.c, x.s, x.side()
	if i := s.entered(k, c.walk-1); i != none && !(c.at == stopAgain && x.off(FlagAgain)) {
		k.entries[i].flags |= flagStopped
		if p := &s.tasks[c.walk-1]; p.stopped > 0 {
			p.stopped = stoppedByUs // it ran when the program met it
		}
	}
	if c.at++; c.at > stopAgain {
		c.at = stopLook
	}
}

// stopSend is SIGSTOP.
func (x *run) stopSend() {
	if p := &x.s.tasks[x.c.walk-1]; p.alive() && !p.killed {
		p.stopped, p.pending = stoppedByUs, x.s.w.left[wake] > 0
	}
	x.c.at = stopAgain
}

// stopLook reads the pause again: a resume that did not see the flag has taken it away before.
func (x *run) stopLook() {
	c, s, k := x.c, x.s, x.side()
	if i := s.entered(k, c.walk-1); i != none && !s.paused(k, k.entries[i].session) && !x.off(StopLooks) {
		c.at = resumeFlag
		return
	}
	x.stopped()
}

// resumeFlag takes the flag away ahead of SIGCONT: one program does, and sends it.
func (x *run) resumeFlag() {
	c, s, k := x.c, x.s, x.side()
	i := s.entered(k, c.walk-1)
	if i == none || k.entries[i].flags&flagStopped == 0 && !x.off(OnlyOurs) {
		x.stopped()
		return
	}
	c.at = resumeSend
	if !x.off(FlagAhead) {
		k.entries[i].flags &^= flagStopped
	}
}

// resumeSend is SIGCONT.
func (x *run) resumeSend() {
	p := &x.s.tasks[x.c.walk-1]
	if p.stopped == stoppedByOthers {
		x.bad = "a member that job control has stopped stays stopped"
	}
	p.stopped, p.pending, x.c.at = 0, false, resumeLook
}

// resumeLook reads the pause again: it may be a new one, whose pass has met the task stopped.
func (x *run) resumeLook() {
	c, s, k := x.c, x.s, x.side()
	if i := s.entered(k, c.walk-1); i != none {
		if x.off(FlagAhead) {
			k.entries[i].flags &^= flagStopped
		}
		if s.paused(k, k.entries[i].session) && !x.off(ResumeLooks) {
			k.w.due, s.w.told = true, true
		}
	}
	x.stopped()
}

// stopped continues with the pass, or ends the program.
func (x *run) stopped() {
	if x.c.after == idle {
		x.leave()
		return
	}
	x.c.at, x.c.after = x.c.after, idle
}

// stopDue is what a pass still has to do about the stop of a member.
func (x *run) stopDue(t uint8, e *entry) {
	p := &x.s.tasks[t]
	switch paused := x.s.paused(x.side(), e.session); {
	case p.killed || !p.alive():
	case paused && p.stopped == 0:
		x.stop(t, passVisit)
	case !paused && (e.flags&flagStopped != 0 || x.off(OnlyOurs) && p.stopped > 0):
		x.c.after, x.c.at = passVisit, resumeFlag
	}
}

// stopper of a task that job control stops. What is stopped while a program stops or continues it, or has its
// note, counts as stopped by us.
func (x *run) stopper(t uint8) uint8 {
	s := x.s
	k := &s.sides[s.w.ours]
	about := slices.ContainsFunc(s.cpus, func(c cpu) bool {
		return (c.at == stopSend || c.at == stopAgain || c.at == resumeSend) && c.walk == t+1
	})
	if i := s.entered(k, t); about || i != none && k.entries[i].flags&flagStopped != 0 {
		return stoppedByUs
	}
	return stoppedByOthers
}

// woken is SIGCONT from anybody: the hook on signals makes a pass due in a while, also if the task has not stopped yet.
func (x *run) woken(t uint8) bool {
	s := x.s
	p := &s.tasks[t]
	if p.stopped == 0 {
		return false
	}
	unseen := x.off(ContinueSeen) || p.pending && x.off(ContinueSoon)
	p.stopped, p.pending = 0, false
	k := &s.sides[s.w.ours]
	if i := s.entered(k, t); i != none && s.paused(k, k.entries[i].session) && !unseen {
		k.w.due = k.w.due && !x.off(NoLater)
		k.w.later, s.w.told = !k.w.due, true
	}
	return true
}
