//go:build linux

package supervise

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

const (
	// killWait is how long init waits after SIGKILL for processes that do not die.
	killWait = 10 * time.Second
	// lookEvery covers what no SIGCHLD reports: the death of a process that is not our
	// child, and a process that becomes our child because its parent died.
	lookEvery = 50 * time.Millisecond
	// maxNamed is how many processes a receipt names.
	maxNamed = 1000
)

// ending is the end of what the command left: SIGTERM and SIGCONT, the grace, SIGKILL,
// and a wait until no process is left. It runs in one goroutine, the one that reaps.
type ending struct {
	family   family
	j        *job
	outcome  api.OutcomeKind // of a process that dies now
	hurried  bool            // a signal asked to end the grace
	gaveUp   bool            // … and then to end the wait
	patience time.Duration   // after SIGKILL

	byPID map[int]*leftover // alive at the last look
	over  []*leftover       // all of them, in the order they were found
	more  int               // … and not named
}

type leftover struct {
	api.Outcome
	start uint64
}

func newEnding(f family, j *job) *ending {
	e := &ending{family: f, j: j, outcome: api.OutcomeSelf, patience: killWait,
		byPID: make(map[int]*leftover)}
	j.orphan = e.reaped
	return e
}

// run ends what is left and returns the receipt. If nothing is left it sends no signal.
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

// await handles children and signals until no process is left, for at most d, and stops
// when enough says so. It reports whether no process is left.
func (e *ending) await(d time.Duration, enough func() bool) (empty bool) {
	over := time.NewTimer(d)
	defer over.Stop()
	look := time.Tick(lookEvery)
	for {
		if e.family.empty(e.j.reap()) {
			return true
		}
		select {
		case <-e.j.sigs.children:
		case s := <-e.j.sigs.to:
			e.asked(s.(unix.Signal))
		case <-look:
			if enough() {
				return e.family.empty(e.j.reap())
			}
		case <-over.C:
			return e.family.empty(e.j.reap())
		}
	}
}

// asked acts on a signal to us: the first one that asks us to end means "now", the
// second one: stop waiting.
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

// look notes which processes are alive, and reports whether any is. A process that is
// gone since the last look gets the outcome of this phase.
func (e *ending) look() (alive bool) {
	now, more := make(map[int]*leftover), 0
	for _, p := range e.family.list() {
		if p.Zombie() {
			continue
		}
		alive = true
		l := e.byPID[int(p.PID)]
		if l == nil || l.start != p.Start {
			if len(e.over) == maxNamed {
				more++
				continue
			}
			argv, _ := proc.Cmdline(p.PID)
			l = &leftover{start: p.Start, Outcome: api.Outcome{
				Ref: api.Ref{PID: int(p.PID)}, Comm: p.Comm,
				Argv: procfs.SplitArgv(argv), Leftover: true,
			}}
			e.over = append(e.over, l)
		}
		now[int(p.PID)] = l
	}
	for pid, l := range e.byPID {
		if now[pid] != l {
			l.died(e.outcome)
		}
	}
	e.byPID, e.more = now, max(e.more, more)
	return alive
}

// reaped notes how a child of ours died. After SIGKILL, a death by anything else was a
// late reaction to SIGTERM.
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

func (l *leftover) died(how api.OutcomeKind) {
	l.Outcome.Outcome = cmp.Or(l.Outcome.Outcome, how)
}

func (e *ending) report(empty bool) *api.Report {
	rep := &api.Report{
		Head: api.NewHead("report"), State: api.StateEnded, EndReason: "root_exit",
		Verdict: api.VerdictClean, VerdictWhy: e.family.scope(),
		ConfirmedEmpty: empty, Truncated: e.more > 0,
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
		rep.Add(l.Outcome)
	}
	return rep
}

// judge is the verdict if processes are left.
func (e *ending) judge(rep *api.Report) {
	for _, p := range e.family.list() {
		if p.Zombie() {
			rep.Zombies = append(rep.Zombies, api.Zombie{Ref: api.Ref{PID: int(p.PID)},
				Comm: p.Comm, Reaper: reaper(p.Parent)})
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

// reaper is the parent of a zombie, which must wait for it; nil if it is outside our namespace.
func reaper(parent uint32) *api.Process {
	p, err := proc.Stat(parent)
	if err != nil {
		return nil
	}
	return &api.Process{Ref: api.Ref{PID: int(p.PID)}, Comm: p.Comm}
}

// whyLeft says why pid may not have died.
func whyLeft(pid int) string {
	if errors.Is(unix.Kill(pid, 0), unix.EPERM) {
		return "not permitted"
	}
	if p, err := proc.Stat(uint32(pid)); err == nil {
		return "state " + string(rune(p.State))
	}
	return ""
}
