//go:build linux

// Package kerneltest is a kernel made of Go: processes, sessions, signals and
// events by the rules of the real one, scripted by a test. It has the methods
// of *tracer.Tracer.
package kerneltest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Proc is a process.
type Proc struct {
	tracer.Process
	IgnoreTerm bool            // SIGTERM does nothing
	Stubborn   bool            // SIGKILL does nothing: state D
	Slow       bool            // after a kill it stays dying until Finish
	Unreaped   bool            // its parent never waits
	Entered    bool            // the kernel holds an entry
	Call       uint32          // in it
	unseen     bool            // its exec was missed
	Runs       *tracer.Running // nil: the file that its link shows
	Signal     *tracer.Signal  // that its exit reports
	Init       uint32          // gets what it leaves, 0: PID 1
}

// Settings are what was requested last.
type Settings struct {
	Agents      []tracer.Agent // whose names Become looks for
	Commands    bool           // PutIn opens sessions
	Mains       bool           // and so does Begin
	Halt        tracer.Halt
	Guarding    tracer.Guarding
	Clients     map[tracer.Identity]tracer.SessionID // whose interruption ends a session
	SelfProtect bool
}

// Kernel is safe for concurrent use.
type Kernel struct {
	cond     *sync.Cond
	closed   bool
	now      time.Duration
	procs    map[uint32]*Proc
	sessions map[tracer.SessionID]*tracer.SessionInfo
	left     map[tracer.SessionID]bool // its client was interrupted
	asked    Settings
	nextSlot uint64
	reports

	fail    map[string]error
	misses  map[string]uint64
	counts  map[string]uint64
	signals []Signal
	sent    []Sent
	// Newborn, if set, runs in End and Sentence after the signals: it can simulate what
	// is forked meanwhile.
	Newborn func()
	Feature tracer.Features

	reconciled int
}

// Signal is one that was sent.
type Signal struct {
	To   tracer.Identity
	Kill bool
}

// New returns a kernel with PID 1 and kthreadd.
func New() *Kernel {
	k := &Kernel{
		now: time.Hour, procs: make(map[uint32]*Proc),
		sessions: make(map[tracer.SessionID]*tracer.SessionInfo), left: make(map[tracer.SessionID]bool),
		reports: reports{sockets: make(map[uint64]tracer.Event)},
		fail:    make(map[string]error), misses: make(map[string]uint64), counts: make(map[string]uint64),
	}
	k.Feature.Level = 4
	k.cond = sync.NewCond(new(sync.Mutex))
	k.Add(1, 0, "init")
	k.Add(2, 0, "kthreadd")
	k.Edit(2, func(p *Proc) { p.Kernel = true })
	return k
}

// lock locks the kernel; its result unlocks it.
func (k *Kernel) lock() (unlock func()) {
	k.cond.L.Lock()
	return k.cond.L.Unlock
}

// call carries out a request, unless a test has made the method fail.
func (k *Kernel) call(method string, do func() error) error {
	defer k.lock()()
	if err := k.fail[method]; err != nil {
		return err
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// on is call with the record of a session.
func (k *Kernel) on(method string, id tracer.SessionID, do func(*tracer.SessionInfo) error) error {
	return k.call(method, func() error {
		if s := k.sessions[id]; s != nil {
			return do(s)
		}
		return fmt.Errorf("session %v: %w", id, tracer.ErrNotFound)
	})
}

// of is the process with that identity, nil if it is gone.
func (k *Kernel) of(id tracer.Identity) *Proc {
	if p := k.procs[id.PID]; p != nil && p.Identity == id {
		return p
	}
	return nil
}

// dead: it has exited, or is gone.
func (k *Kernel) dead(id tracer.Identity) bool {
	p := k.of(id)
	return p == nil || p.Dead
}

// Settings returns what was requested last.
func (k *Kernel) Settings() Settings {
	defer k.lock()()
	return k.asked
}

// Now is the fake CLOCK_MONOTONIC; boottime is the same.
func (k *Kernel) Now() time.Duration {
	defer k.lock()()
	return k.now
}

// Advance moves the clock.
func (k *Kernel) Advance(d time.Duration) {
	defer k.lock()()
	k.now += d
}

// Add adds a process to the host without a birth event.
func (k *Kernel) Add(pid, parent uint32, comm string) Proc {
	defer k.lock()()
	return *k.add(pid, parent, comm)
}

func (k *Kernel) add(pid, parent uint32, comm string) *Proc {
	k.now += time.Microsecond
	p := &Proc{}
	p.Identity = tracer.Identity{PID: pid, Start: uint64(k.now)}
	if pp := k.procs[parent]; pp != nil {
		p.Parent = pp.Identity
	}
	p.Comm = lineage.CommOf(comm)
	p.Threads, p.NSPID, p.RSS = 1, pid, 4096
	k.procs[pid] = p
	return p
}

// Proc returns a copy of a process, nil if there is none.
func (k *Kernel) Proc(pid uint32) *Proc {
	defer k.lock()()
	p := k.procs[pid]
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// Edit changes a process. A SIGKILL that was sent to it has its effect as soon as it may.
func (k *Kernel) Edit(pid uint32, f func(*Proc)) {
	defer k.lock()()
	p := k.procs[pid]
	stopped := p.Stopped
	if f(p); p.Flags&tracer.FlagKilled != 0 {
		k.obey(p)
	} else if stopped && !p.Stopped {
		by := &tracer.Signal{Sender: tracer.ByProcess, By: p.Parent, Time: uint64(k.now)}
		k.emit(tracer.Event{Type: tracer.EventContinue, Process: p.Identity, Session: p.Session, Signal: by})
	}
}

// Fail makes the named method fail, or, with nil, work again.
func (k *Kernel) Fail(method string, err error) {
	defer k.lock()()
	k.fail[method] = err
}

// Count adds to a counter.
func (k *Kernel) Count(name string, n uint64) {
	defer k.lock()()
	k.counts[name] += n
}

// Signals returns those that were sent, oldest first.
func (k *Kernel) Signals() []Signal {
	defer k.lock()()
	return slices.Clone(k.signals)
}

// Fork is a fork by creator: children of members are members, and die at birth if their
// session is condemned.
func (k *Kernel) Fork(creator, pid uint32, comm string) {
	defer k.lock()()
	c := k.procs[creator]
	p := k.add(pid, creator, comm)
	p.UID, p.Call = c.UID, c.Call
	if c.Session == 0 {
		return
	}
	k.enter(p, c.Session, tracer.EvidenceFork, c.Identity)
	if k.condemned(c.Session) {
		k.signal(p, tracer.FlagKilled)
		k.obey(p)
	}
}

func (k *Kernel) enter(p *Proc, id tracer.SessionID, why tracer.Evidence, creator tracer.Identity) {
	k.move(p, id)
	p.Since, p.Evidence, p.Creator, p.Entered = uint64(k.now), why, creator, true
	if why == tracer.EvidenceFork || why == tracer.EvidenceReconciled {
		k.chain(id, func(s *tracer.SessionInfo) { s.Forks++ })
	}
	k.emit(tracer.Event{Type: tracer.EventBirth, Process: p.Identity, Session: id, Evidence: why,
		Source: p.Source, Creator: creator, Parent: p.Parent, Looks: p.Looks, Flags: p.Flags})
}

// move makes a process a member of another session.
func (k *Kernel) move(p *Proc, to tracer.SessionID) {
	k.chain(p.Session, func(s *tracer.SessionInfo) { s.Live-- })
	p.Session = to
	k.chain(to, func(s *tracer.SessionInfo) { s.Live++; s.Peak = max(s.Peak, uint64(s.Live)) })
}

// Exec replaces the program of pid.
func (k *Kernel) Exec(pid uint32, filename string, argv string) {
	defer k.lock()()
	p := k.procs[pid]
	if p.Session != 0 {
		k.emit(tracer.Event{Type: tracer.EventExec, Process: p.Identity, Session: p.Session,
			Looks: p.Looks, Filename: []byte(filename), Argv: []byte(argv)})
	}
}

// Exit makes a process exit on its own.
func (k *Kernel) Exit(pid uint32, status uint32) {
	defer k.lock()()
	k.exit(k.procs[pid], status)
}

// Finish ends the teardown of a Slow process.
func (k *Kernel) Finish(pid uint32) {
	defer k.lock()()
	p := k.procs[pid]
	k.chain(p.Session, func(s *tracer.SessionInfo) { s.Dying-- })
	k.bury(p)
}

func (k *Kernel) exit(p *Proc, status uint32) {
	if p == nil || p.Dead {
		return
	}
	p.Dead = true
	if s := k.sessions[k.asked.Clients[p.Identity]]; s != nil && (status&0x7f != 0 || status>>8 >= 128) && !k.dead(s.Root) {
		k.left[s.ID] = true
	}
	if id := p.Session; id != 0 {
		k.emit(tracer.Event{Type: tracer.EventExit, Process: p.Identity, Session: id, Flags: p.Flags, ExitStatus: status,
			CPUTime: p.CPUTime, MaxRSS: p.RSS, Signal: p.Signal})
		k.chain(id, func(s *tracer.SessionInfo) {
			s.Live--
			s.Unreaped++
			if s.Live == 0 {
				s.Emptied = uint64(k.now)
			}
			if p.Slow {
				s.Dying++
			}
		})
	} else if p.Signal != nil {
		k.deaths = append(k.deaths, tracer.Event{Process: p.Identity, Looks: p.Looks, Signal: p.Signal})
	}
	k.due()
	if !p.Slow {
		k.bury(p)
	}
}

// bury makes a dead process a zombie and, if its parent waits, reaps it. Its children
// go to PID 1.
func (k *Kernel) bury(p *Proc) {
	p.Zombie = true
	for _, c := range k.tasks() {
		if c.Parent == p.Identity {
			from := c.Parent
			c.Parent = k.procs[max(p.Init, 1)].Identity
			if c.Session != 0 && !c.Dead {
				k.emit(tracer.Event{
					Type: tracer.EventReparent, Process: c.Identity, Session: c.Session, From: from, Parent: c.Parent,
				})
			}
		}
	}
	if !p.Unreaped {
		k.reap(p)
	}
}

// Reap makes the parent of a zombie wait for it at last.
func (k *Kernel) Reap(pid uint32) {
	defer k.lock()()
	k.reap(k.procs[pid])
}

func (k *Kernel) reap(p *Proc) {
	delete(k.procs, p.PID)
	if p.Session != 0 {
		k.chain(p.Session, func(s *tracer.SessionInfo) { s.Unreaped-- })
		k.emit(tracer.Event{Type: tracer.EventReaped, Process: p.Identity, Session: p.Session})
	}
}

// tasks are all processes in the order of their birth, as on the task list.
func (k *Kernel) tasks() []*Proc {
	return slices.SortedFunc(maps.Values(k.procs), func(a, b *Proc) int { return cmp.Compare(a.Start, b.Start) })
}

func (k *Kernel) chain(id tracer.SessionID, each func(*tracer.SessionInfo)) {
	for s := k.sessions[id]; s != nil; s = k.sessions[s.Parent] {
		each(s)
	}
}

func (k *Kernel) within(id, ancestor tracer.SessionID) (in bool) {
	k.chain(id, func(s *tracer.SessionInfo) { in = in || s.ID == ancestor })
	return in
}

func (k *Kernel) condemned(id tracer.SessionID) (yes bool) {
	k.chain(id, func(s *tracer.SessionInfo) { yes = yes || s.State.Kills() })
	return yes
}

// SlipIn is for Newborn: it adds a member that no pass has met, if the session is condemned.
func (k *Kernel) SlipIn(pid, parent uint32, id tracer.SessionID) bool {
	s := k.sessions[id]
	if s == nil || s.State != tracer.StateCondemned {
		return false
	}
	k.enter(k.add(pid, parent, "newborn"), id, tracer.EvidenceFork, k.procs[parent].Identity)
	return true
}

// Reach moves the clock on to a time, unless that is past, and returns what it is then.
func (k *Kernel) Reach(at time.Duration) time.Duration {
	defer k.lock()()
	k.now = max(k.now, at)
	return k.now
}

// in are the members of a session and of those in it; 0: all processes.
func (k *Kernel) in(id tracer.SessionID) []*Proc {
	return slices.DeleteFunc(k.tasks(), func(p *Proc) bool { return id != 0 && !k.within(p.Session, id) })
}

// Alive are the live members of a session and of those in it, in the order of their birth; 0: all live processes. No
// fault affects it.
func (k *Kernel) Alive(id tracer.SessionID) (all []tracer.Identity) {
	defer k.lock()()
	for _, p := range k.in(id) {
		if !p.Dead {
			all = append(all, p.Identity)
		}
	}
	return all
}

// Records are the sessions, dissolved ones included, in the order of their slots. No fault affects it.
func (k *Kernel) Records() (all []tracer.SessionInfo) {
	defer k.lock()()
	for _, s := range k.sessions {
		all = append(all, k.info(s))
	}
	slices.SortFunc(all, func(a, b tracer.SessionInfo) int { return cmp.Compare(uint32(a.ID), uint32(b.ID)) })
	return all
}
