//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
)

const (
	// killWait is how long after SIGKILL init waits for who does not die.
	killWait = 10 * time.Second
	// lookEvery is for what no SIGCHLD tells: the death of who is no child, and
	// a child that becomes ours because another's parent died.
	lookEvery = 50 * time.Millisecond
	// maxNamed is how many processes a receipt names.
	maxNamed = 1000
)

// ending is the end of what the command left: SIGTERM and SIGCONT, the grace,
// SIGKILL, and a wait until nobody is left. One goroutine, the one that reaps.
type ending struct {
	family   family
	j        *job
	outcome  api.OutcomeKind // of who dies now
	hurried  bool            // somebody asked for the end of the grace
	gaveUp   bool            // … and then for the end of the wait
	patience time.Duration   // after SIGKILL

	byPID map[int]*leftover // who was alive when last looked at
	over  []*leftover       // all of them, in the order they were found
	more  int               // … and not named
}

type leftover struct {
	api.Outcome
	start uint64
}

func newEnding(f family, j *job) *ending {
	e := &ending{family: f, j: j, outcome: api.OutcomeSelf, patience: killWait, byPID: make(map[int]*leftover)}
	j.orphan = e.reaped
	return e
}

// run ends what is left and gives the receipt. With nobody left it sends
// nothing.
func (e *ending) run(grace time.Duration) *api.Report {
	begun, reaped := time.Now(), e.j.orphans
	empty := e.family.empty(e.j.reap())
	if !empty {
		e.look()
	}
	if !empty && grace > 0 {
		e.outcome = api.OutcomeTerm
		e.family.signal(unix.SIGTERM)
		e.family.signal(unix.SIGCONT)
		empty = e.await(grace, func() bool { return e.hurried || !e.look() })
	}
	if !empty {
		e.look()
		e.outcome = api.OutcomeKill
		e.family.signal(unix.SIGKILL)
		empty = e.await(e.patience, func() bool {
			e.family.signal(unix.SIGKILL)
			return e.gaveUp || !e.look()
		})
	}
	rep := e.report(empty)
	rep.Exited = reaped + 1 // and the command
	rep.DurationMS = float64(time.Since(begun).Microseconds()) / 1e3
	return rep
}

// await serves children and signals until nobody is left, for d at most, and
// not on when enough says so. It tells whether nobody is left.
func (e *ending) await(d time.Duration, enough func() bool) (empty bool) {
	over := time.NewTimer(d)
	defer over.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		if e.family.empty(e.j.reap()) {
			return true
		}
		select {
		case <-e.j.sigs.children:
		case s := <-e.j.sigs.to:
			e.asked(s.(unix.Signal))
		case <-look.C:
			if enough() {
				return e.family.empty(e.j.reap())
			}
		case <-over.C:
			return e.family.empty(e.j.reap())
		}
	}
}

// asked acts on a signal to us: the first that asks us to end means "now", the
// second that we do not wait any longer.
func (e *ending) asked(sig unix.Signal) {
	switch {
	case sig == unix.SIGTSTP:
		stopLike(sig)
	case !endsRun(sig):
	case e.hurried:
		e.gaveUp = true
	default:
		e.hurried = true
	}
}

// look notes who is alive, and tells whether anybody is. Who was and is not any
// more has died as it was time to.
func (e *ending) look() (alive bool) {
	now, more := make(map[int]*leftover), 0
	for _, p := range e.family.list() {
		if p.zombie {
			continue
		}
		alive = true
		l := e.byPID[p.pid]
		if l == nil || l.start != p.start {
			if len(e.over) == maxNamed {
				more++
				continue
			}
			l = &leftover{start: p.start, Outcome: api.Outcome{Ref: api.Ref{PID: p.pid}, Comm: p.comm, Argv: argv(p.pid), Leftover: true}}
			e.over = append(e.over, l)
		}
		now[p.pid] = l
	}
	for pid, l := range e.byPID {
		if now[pid] != l {
			l.died(e.outcome)
		}
	}
	e.byPID, e.more = now, max(e.more, more)
	return alive
}

// reaped notes how a child of ours has died. After SIGKILL an exit by another
// way was a late answer to SIGTERM.
func (e *ending) reaped(pid int, ws unix.WaitStatus) {
	l := e.byPID[pid]
	if l == nil {
		return
	}
	how := e.outcome
	if how == api.OutcomeKill && ws.Signal() != unix.SIGKILL {
		how = api.OutcomeTerm
	}
	l.died(how)
	delete(e.byPID, pid)
}

// died is told once of each.
func (l *leftover) died(how api.OutcomeKind) {
	if l.Outcome.Outcome == "" {
		l.Outcome.Outcome = how
	}
}

// report is the receipt.
func (e *ending) report(empty bool) *api.Report {
	rep := &api.Report{
		Head: api.NewHead("report"), State: api.StateEnded, EndReason: "root_exit",
		Verdict: api.VerdictClean, VerdictWhy: e.family.scope(), ConfirmedEmpty: empty, Truncated: e.more > 0,
		Processes: []api.Outcome{},
	}
	if !empty {
		e.judge(rep)
	}
	for _, l := range e.over {
		switch {
		case e.byPID[l.PID] != l || empty:
			l.died(e.outcome)
		default:
			l.Outcome.Outcome, l.Why = api.OutcomeLeft, whyLeft(l.PID)
		}
		if l.Outcome.Outcome == api.OutcomeKill {
			rep.Killed++
		}
		rep.Processes = append(rep.Processes, l.Outcome)
	}
	return rep
}

// judge is the verdict over a family of which somebody is left.
func (e *ending) judge(rep *api.Report) {
	for _, p := range e.family.list() {
		if p.zombie {
			rep.Zombies = append(rep.Zombies, api.Zombie{Ref: api.Ref{PID: p.pid}, Comm: p.comm, Reaper: reaper(p)})
		} else {
			rep.Left++
		}
	}
	switch {
	case e.gaveUp:
		rep.Verdict, rep.VerdictWhy = api.VerdictUnknown, "the wait was interrupted"
	case rep.Left > 0:
		rep.Verdict, rep.VerdictWhy = api.VerdictLeft, fmt.Sprintf("alive %v after SIGKILL", e.patience)
	case len(rep.Zombies) == 0:
		rep.Verdict, rep.VerdictWhy = api.VerdictUnknown, "a process is left that /proc does not show"
	}
}

// reaper is who has to wait for a zombie; nil if it is outside our namespace.
func reaper(zombie relative) *api.Process {
	p, ok := readProcess(zombie.parent)
	if !ok {
		return nil
	}
	return &api.Process{Ref: api.Ref{PID: p.pid}, Comm: p.comm}
}

// whyLeft says why pid may not have died.
func whyLeft(pid int) string {
	if errors.Is(unix.Kill(pid, 0), unix.EPERM) {
		return "not permitted"
	}
	if p, ok := readProcess(pid); ok {
		return "state " + p.state
	}
	return ""
}
