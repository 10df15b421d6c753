//go:build linux

package enforcer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

const (
	defaultLimit = 9 * time.Second
	minPause     = 200 * time.Microsecond
	maxPause     = 50 * time.Millisecond
	maxRest      = 500 * time.Millisecond
	leftPause    = time.Second           // between looks at what could not be ended
	reapPause    = 50 * time.Millisecond // for parents to reap, before they are named
	exitPause    = time.Second           // for the dead to leave the task list
	maxPasses    = 16                    // of one look
)

type Options struct {
	// Self is the daemon; the daemon and its ancestors are never ended.
	Self tracer.Identity
	// Limit is how long after SIGKILL a session may take to become empty before its
	// verdict is left. Default 9 s: the commands wait 10 s for it.
	Limit time.Duration
	// Clock is CLOCK_MONOTONIC, as in SessionInfo.Deadline.
	Clock func() time.Duration
	// Proc is where procfs is mounted; it is read for reasons to show, never to decide.
	// Default /proc.
	Proc procfs.FS
	// Hold opens a handle on the process that has a PID now; unix.ESRCH: no process.
	// Default: a pidfd.
	Hold func(pid uint32) (Handle, error)
}

// Enforcer ends sessions. Its methods may be called from any goroutine, but
// Step and Run only from one.
type Enforcer struct {
	kernel Kernel
	self   tracer.Identity
	clock  func() time.Duration
	proc   procfs.FS
	hold   func(pid uint32) (Handle, error)

	wake chan struct{}

	mu       sync.Mutex
	limit    time.Duration // Options.Limit
	ends     map[tracer.SessionID]*ending
	baseline map[tracer.SessionID]uint64 // births missed before the session began
	missed   uint64                      // births missed before the last reconcile pass
	awake    map[tracer.SessionID]awake  // members that run in spite of a pause
}

// ending is one session that is watched until it is empty.
type ending struct {
	id        tracer.SessionID
	next      time.Duration // when to look again
	rest      time.Duration // no look before then, see pauseAfter
	pause     time.Duration
	swept     bool          // a pass was made since the end is known
	sent      bool          // the last pass sent a signal
	unentered uint32        // children that could not be entered, when they were last searched for
	failing   time.Duration // since when the kernel does not answer, 0: it answers
	condemned time.Duration // since when it is known to have no grace left, 0: not yet
	empty     time.Duration // since when it is known to be empty, 0: not yet
	judged    bool          // a verdict other than clean was given

	still bool               // there was no news for some time before the last look
	info  tracer.SessionInfo // what the kernel said in it
	err   error              // what it answered instead
}

func New(k Kernel, o Options) *Enforcer {
	if o.Hold == nil {
		o.Hold = hold
	}
	return &Enforcer{
		kernel: k, self: o.Self, limit: cmp.Or(o.Limit, defaultLimit), clock: o.Clock,
		proc: cmp.Or(o.Proc, "/proc"), hold: o.Hold,
		wake:     make(chan struct{}, 1),
		ends:     make(map[tracer.SessionID]*ending),
		baseline: make(map[tracer.SessionID]uint64),
		awake:    make(map[tracer.SessionID]awake),
	}
}

// Begin notes, before a session is created, how many births were missed so far: births
// missed later count against its verdict. Pass the value to Began. For a session that
// is older than this Enforcer nothing is known, so every miss since the programs were
// loaded counts.
func (e *Enforcer) Begin() uint64 {
	n, err := e.kernel.MissedBirths()
	if err != nil {
		return 0
	}
	return n
}

// Began assigns the result of Begin to the new session.
func (e *Enforcer) Began(id tracer.SessionID, baseline uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.baseline[id] = baseline
}

// SetLimit sets another Options.Limit. It applies to ends that have no verdict yet,
// including those already under way.
func (e *Enforcer) SetLimit(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.limit = d
}

func (e *Enforcer) patience() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.limit
}

func (e *Enforcer) Forget(id tracer.SessionID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.ends, id)
	delete(e.baseline, id)
}

// End begins the end of a session: SIGTERM and SIGCONT now and SIGKILL after grace, or
// SIGKILL at once if grace is 0. A repeated call can only shorten the grace. It does
// not check the guards: call CheckEnds first.
func (e *Enforcer) End(id tracer.SessionID, cause tracer.Cause, grace time.Duration) error {
	info, err := e.kernel.Session(id)
	e.reconcile(err == nil && info.Unentered > 0)
	if err := e.kernel.End(id, cause, grace); err != nil {
		return fmt.Errorf("end session %v: %w", id, err)
	}
	e.Watch(id)
	return nil
}

// Halt puts a halt in force, and ends sessions with it. It does not check the guards: call CheckEnds
// first.
func (e *Enforcer) Halt(h tracer.Halt, ends []tracer.SessionID) error {
	began := e.clock()
	e.reconcile(false)
	if err := e.kernel.SetHalt(h, ends); err != nil {
		return fmt.Errorf("halt %d sessions: %w", len(ends), err)
	}
	looks := make([]*ending, len(ends))
	for i, id := range ends {
		looks[i] = e.watch(id)
	}
	e.pauseAfter(looks, began)
	return nil
}

// Watch makes Step look at a session now and, if it is ending, until it is empty. Call
// it when the kernel reports a new state, or the death of a member of an ending
// session.
func (e *Enforcer) Watch(id tracer.SessionID) { e.watch(id) }

func (e *Enforcer) watch(id tracer.SessionID) *ending {
	e.mu.Lock()
	x := e.ends[id]
	if x == nil {
		x = &ending{id: id}
		e.ends[id] = x
	}
	x.next, x.pause = 0, minPause
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
	return x
}

// Run takes steps until ctx is done and passes each result to over.
func (e *Enforcer) Run(ctx context.Context, over func(Result)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		case <-timer.C:
		}
		wait, results := e.Step()
		for _, r := range results {
			over(r)
		}
		if wait < 0 {
			timer.Stop()
			continue
		}
		timer.Reset(wait)
	}
}

// Step does what is due. It returns the time until something is due again (negative:
// nothing until the next Watch) and the sessions that are over. A session with the
// verdict left stays watched and may later become clean.
func (e *Enforcer) Step() (wait time.Duration, over []Result) {
	now := e.clock()
	looks := e.due(now)
	began := e.clock()
	e.sweep(looks, now)
	for _, x := range looks {
		r, done := e.judge(x, now)
		if r != nil {
			over = append(over, *r)
		}
		if done {
			e.mu.Lock()
			if e.ends[x.id] == x && x.next != 0 { // 0: Watch was called during the look
				delete(e.ends, x.id)
			}
			e.mu.Unlock()
		}
	}
	e.pauseAfter(looks, began)
	if slices.ContainsFunc(looks, (*ending).pauses) {
		e.calm(began)
	}
	return e.wait(e.clock()), over
}

// due returns the endings to look at now and schedules the next look at each, so that a
// Watch in the meantime is not lost.
func (e *Enforcer) due(now time.Duration) []*ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	var due []*ending
	for _, x := range e.ends {
		if max(x.next, x.rest) > now {
			continue
		}
		x.next = now + x.pause
		x.pause = min(2*x.pause, maxPause)
		x.still = x.pause == maxPause
		due = append(due, x)
	}
	slices.SortFunc(due, func(a, b *ending) int { return cmp.Compare(a.id, b.id) })
	return due
}

func (e *Enforcer) wait(now time.Duration) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	wait := time.Duration(-1)
	for _, x := range e.ends {
		if d := max(x.next-now, x.rest-now, 0); wait < 0 || d < wait {
			wait = d
		}
	}
	return wait
}

// judge advances one end by what a look found. done: there is nothing more to watch.
func (e *Enforcer) judge(x *ending, now time.Duration) (r *Result, done bool) {
	info, err := x.info, x.err
	if errors.Is(err, tracer.ErrNotFound) || err == nil && info.State == tracer.StateFree {
		return &Result{Session: x.id, Verdict: api.VerdictUnknown,
			Why: "the kernel holds no record of it", Gone: true}, true
	}
	if err != nil {
		return e.unanswered(x, now, err), false
	}
	x.failing = 0
	switch info.State {
	case tracer.StateActive:
		if info.Paused == 0 {
			return nil, true
		}
		x.swept = false
		if !x.sent { // else somebody continues members
			e.slow(x, now)
		}
		return nil, false
	case tracer.StateEmpty:
		res := e.prove(info)
		x.empty = cmp.Or(x.empty, max(now, 1))
		if len(res.Zombies) > 0 && now-x.empty < reapPause || exiting(res.Left) && now-x.empty < exitPause {
			return nil, false
		}
		return &res, true
	case tracer.StateEnding, tracer.StateCondemned: // the kernel condemns only for members that live
		if grace := time.Duration(info.Deadline); info.State == tracer.StateEnding && now < grace {
			e.noLater(x, grace)
			return nil, false
		}
		x.condemned = cmp.Or(x.condemned, max(now, 1))
		if now-x.condemned >= e.patience() {
			e.slow(x, now)
			if !x.judged {
				x.judged = true
				return new(e.leftovers(info)), false
			}
		}
	}
	return nil, false
}

// exiting reports whether the task list has members and all of them are dead. The
// kernel may have counted their deaths while they are preempted during exit.
func exiting(left []Leftover) bool {
	return len(left) > 0 && !slices.ContainsFunc(left, func(l Leftover) bool { return !l.Dead })
}

// passDue reports whether Sentence must run: when a root may have died (at level 2 no hook acts on that), when an end
// began (below level 4 even the first signals are ours), when the deadline has passed, and while condemned members live
// or the session is paused.
func passDue(x *ending, info tracer.SessionInfo, now time.Duration) bool {
	switch info.State {
	case tracer.StateActive:
		return !x.swept
	case tracer.StateEnding:
		return !x.swept || info.Deadline != 0 && time.Duration(info.Deadline) <= now
	case tracer.StateCondemned:
		return !x.swept || info.Live > 0
	}
	return false
}

// noLater schedules a look at x for when its deadline passes, however long its pause is.
func (e *Enforcer) noLater(x *ending, deadline time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x.next = min(x.next, deadline)
}

// pauseAfter leaves the CPUs to the dying processes for twice as long as the looks took, each of which walks all
// processes of the host. It has a limit, because the daemon may have been stopped during a look.
func (e *Enforcer) pauseAfter(looks []*ending, began time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock()
	for _, x := range looks {
		x.rest = now + min(2*(now-began), maxRest)
	}
}

func (e *Enforcer) slow(x *ending, now time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x.next = now + leftPause
}

// unanswered returns a verdict if the kernel has not answered for the limit.
func (e *Enforcer) unanswered(x *ending, now time.Duration, err error) *Result {
	x.failing = cmp.Or(x.failing, max(now, 1))
	if now-x.failing < e.patience() {
		return nil
	}
	e.slow(x, now)
	if x.judged {
		return nil
	}
	x.judged = true
	return &Result{Session: x.id, Verdict: api.VerdictUnknown,
		Why: fmt.Sprintf("the kernel does not answer: %v", err)}
}
