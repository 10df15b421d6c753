//go:build linux

package tracer_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// troupe is one run of a scene: real processes, the sessions that were made for them, and
// where each process belongs by what succeeded.
type troupe struct {
	*testing.T
	tr      *tracer.Tracer
	theatre *theatre
	scene   string
	keeper  *actor

	actors   []*actor
	sessions []*act
	mu       sync.Mutex // guards the next two: what waited at a place continues beside the rest
	log      []string
	steps    int
	before   map[string]uint64 // counters

	late         bool // a program that waited went on too early
	after, burst int  // which calls fail
	places       []string
	failed       int
}

func (p *troupe) called(id tracer.SessionID) string {
	for _, s := range p.sessions {
		if s.id == id {
			return s.name
		}
	}
	return fmt.Sprint("session ", id)
}

func (p *troupe) step(format string, args ...any) {
	p.Helper()
	places, failed, err := p.tr.Calls()
	require.NoError(p, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps++
	p.log = append(p.log, fmt.Sprintf("%4d %d %s", len(places), failed, fmt.Sprintf(format, args...)))
}

// wrong fails with what was done, and which calls failed.
func (p *troupe) wrong(format string, args ...any) {
	p.Helper()
	places, failed, _ := p.tr.Calls()
	if failed == 0 {
		places = p.places
	}
	failing := places[min(p.after, len(places)):min(p.after+p.burst, len(places))]
	p.Fatalf("%s: %s; calls %d to %d failed: %s\ncalls and failed before each step:\n%s", p.scene, fmt.Sprintf(format, args...),
		p.after, p.after+p.burst, strings.Join(failing, " "), strings.Join(p.log, "\n"))
}

// eventually polls, as a daemon does, until nothing is wrong.
func (p *troupe) eventually(wrong func() string) {
	p.Helper()
	for end := time.Now().Add(patience / 3); ; time.Sleep(time.Millisecond) {
		what := wrong()
		if what == "" {
			return
		}
		if time.Now().After(end) {
			p.wrong("still: %s", what)
		}
		_, err := p.tr.Sentence()
		require.NoError(p, err)
		require.NoError(p, p.tr.CountReaped())
		if p.counted("delete_failed") || p.counted("enter_failed") {
			_, _, err := p.tr.Reconcile()
			require.NoError(p, err)
		}
	}
}

// onRecord reports whether a session around the process says that children of members run
// without an entry. Then no verdict says clean.
func (p *troupe) onRecord(a *actor) bool {
	for s := a.in; s != nil; s = s.in {
		if info, err := p.tr.Session(s.id); err == nil && info.Unentered > 0 {
			return true
		}
	}
	return false
}

// counted reports whether the kernel side counted this since the scene began.
func (p *troupe) counted(name string) bool {
	now, err := p.tr.Counters()
	require.NoError(p, err)
	return now[name] > p.before[name]
}

func (p *troupe) fork(parent *actor) *actor { return p.bear(parent, "fork") }

// bear has a process fork. A child that cannot be entered, or whose session ends, may die
// before it runs; no other may.
func (p *troupe) bear(parent *actor, command string) *actor {
	p.Helper()
	if parent == nil || parent.gone() {
		return nil
	}
	a := &actor{name: fmt.Sprint("p", len(p.actors)), in: parent.in}
	p.step("%s = %s of %s", a.name, strings.Fields(command)[0], parent.name)
	_, err := ask(parent.channel, command)
	if errors.Is(err, errGone) {
		if !parent.mayDie() {
			p.wrong("%s died when it forked", parent.name)
		}
		p.theatre.clear()
		return nil
	}
	require.NoError(p, err)
	var pid uint32
	a.channel, pid, err = p.theatre.accept()
	switch {
	case errors.Is(err, errGone):
		if !a.in.doomed() && (a.in == nil || !p.counted("enter_failed") || p.tr.Features().Level < 3) {
			p.wrong("%s was killed at its birth", a.name)
		}
		a.leaves()
		return nil
	case err != nil:
		p.wrong("no %s: %v", a.name, err)
	}
	a.id, err = p.tr.Identify(pid)
	if err != nil && !a.in.doomed() {
		p.wrong("%s: %v", a.name, err)
	}
	if _, err := p.tr.Lookup(pid); a.in.home() != nil && errors.Is(err, tracer.ErrNotFound) {
		a.missed = true
	}
	p.actors = append(p.actors, a)
	return a
}

// around is the session in which one of the process is nested. A process that runs without
// an entry is in none.
func (p *troupe) around(a *actor) *act {
	if _, err := p.tr.Lookup(a.id.PID); errors.Is(err, tracer.ErrNotFound) && p.onRecord(a) {
		return nil
	}
	return a.in.home()
}

// create makes a session. It returns nil if that fails, and then no session is on record.
func (p *troupe) create(root *actor, spec tracer.SessionSpec) *act {
	p.Helper()
	if root == nil || root.gone() {
		return nil
	}
	s := &act{name: fmt.Sprint("s", len(p.sessions)), in: p.around(root), root: root, patient: spec.Grace > 0}
	if spec.KeptFrom != 0 {
		s.in = nil
	}
	p.step("%s over %s in %s", s.name, root.name, s.in.called())
	before, err := p.tr.Sessions()
	require.NoError(p, err)
	spec.Root = root.id
	s.id, err = p.tr.Create(spec)
	if err != nil {
		p.refused(err)
		if after, err := p.tr.Sessions(); err != nil || len(after) != len(before) {
			p.wrong("it was refused, and there are %d sessions, before %d, %v", len(after), len(before), err)
		}
		return nil
	}
	root.in = s
	p.sessions = append(p.sessions, s)
	return s
}

// refused notes that a verb failed: it may, while calls of helpers fail.
func (p *troupe) refused(err error) {
	p.Helper()
	p.mu.Lock()
	p.log = append(p.log, "       "+err.Error())
	p.mu.Unlock()
	if _, failed, _ := p.tr.Calls(); failed == 0 {
		p.wrong("%v, and no helper had failed", err)
	}
}

// exec has a process become another program, which may open a session.
func (p *troupe) exec(a *actor, name string) *act {
	p.Helper()
	if a == nil || a.gone() {
		return nil
	}
	p.step("%s execs as %s", a.name, name)
	around := p.around(a)
	if _, err := ask(a.channel, "exec "+p.theatre.names[name]); err != nil {
		if !a.mayDie() {
			p.wrong("%s died at its exec", a.name)
		}
		return nil
	}
	if name == "other" {
		return nil
	}
	e, err := p.tr.Lookup(a.id.PID)
	if err != nil && !errors.Is(err, tracer.ErrNotFound) {
		require.NoError(p, err)
	}
	if e.Session == 0 || e.Session == a.in.home().number() {
		if !p.counted("agent_refused") {
			p.wrong("the exec of %s opened no session, and it was not counted", a.name)
		}
		return nil
	}
	s := &act{name: fmt.Sprint("s", len(p.sessions)), id: e.Session, in: around, root: a}
	a.in = s
	p.sessions = append(p.sessions, s)
	return s
}

// exit has a process exit; the end of the sessions that it is the root of begins.
func (p *troupe) exit(a *actor) {
	p.Helper()
	if a == nil || a.gone() {
		return
	}
	p.step("%s exits", a.name)
	if _, err := ask(a.channel, "exit"); !errors.Is(err, errGone) {
		require.NoError(p, err)
	}
	a.exited = true
	for _, s := range p.sessions {
		s.over = s.over || s.root == a
	}
}

func (p *troupe) tell(a *actor, command string) {
	p.Helper()
	if a == nil || a.gone() {
		return
	}
	p.step("%s: %s", a.name, command)
	if _, err := ask(a.channel, command); err != nil && !a.mayDie() {
		p.wrong("%s: %s: %v", a.name, command, err)
	}
}

func (p *troupe) reap(a, child *actor) {
	if child != nil && child.gone() {
		p.tell(a, fmt.Sprint("reap ", child.id.PID))
	}
}

// verb does something for a session. It may fail only if a helper does.
func (p *troupe) verb(s *act, what string, do func() error) bool {
	p.Helper()
	if s == nil || s.released {
		return false
	}
	p.step("%s %s", what, s.name)
	err := do()
	if err != nil {
		p.refused(err)
	}
	return err == nil
}

func (p *troupe) end(s *act, grace time.Duration) {
	p.Helper()
	if s == nil || s.released {
		return
	}
	p.entered(s)
	s.over, s.patient = true, grace > 0
	p.verb(s, "end", func() error { return p.tr.End(s.id, tracer.CauseEnd, grace) })
}

// entered makes a reconcile pass if the session has children that could not be entered.
func (p *troupe) entered(s *act) {
	p.Helper()
	if info, err := p.tr.Session(s.id); err == nil && info.Unentered > 0 {
		p.step("reconcile")
		_, _, err := p.tr.Reconcile()
		require.NoError(p, err)
	}
}

// finish ends a session and releases it. Of those that belong to it nobody lives then.
func (p *troupe) finish(s *act) {
	p.Helper()
	if s.released {
		return
	}
	if !s.dissolved {
		p.end(s, 0)
		p.settled(s)
	}
	p.step("release %s", s.name)
	if err := p.tr.Release(s.id); err != nil {
		p.eventually(func() string {
			if err := p.tr.Release(s.id); err != nil && !errors.Is(err, tracer.ErrNotFound) {
				return err.Error()
			}
			return ""
		})
	}
	s.released = true
}

// settled waits until a session that ends is reported as over.
func (p *troupe) settled(s *act) {
	p.Helper()
	if s == nil || s.released || !s.doomed() {
		return
	}
	p.step("settle %s", s.name)
	p.eventually(func() string {
		info, err := p.tr.Settle(s.id)
		if err != nil {
			return err.Error()
		}
		if info.State != tracer.StateEmpty {
			return fmt.Sprintf("%s is %v, live %d, dying %d", s.name, info.State, info.Live, info.Dying)
		}
		for _, a := range p.actors {
			if !a.in.within(s) || a.gone() || info.Unentered > 0 {
				continue
			}
			p.wrong("%s is over, and %s lives: %+v", s.name, a.name, info)
		}
		return ""
	})
}

// strangersLive checks that nobody outside was signalled.
func (p *troupe) strangersLive() {
	p.Helper()
	for _, a := range append(p.actors, p.keeper) {
		if a.exited || a.mayDie() {
			continue
		}
		if said, err := ask(a.channel, "ping"); err != nil || said != "pong" {
			p.wrong("%s of %s says %q, %v", a.name, a.in.called(), said, err)
		}
	}
}

// nothingStays checks that no entry outlives its process: a settle and a reconcile pass
// remove what failed deletes have left.
func (p *troupe) nothingStays() {
	p.Helper()
	cmd, channel, err := p.theatre.keeper()
	require.NoError(p, err)
	defer func() {
		unix.Close(channel)
		require.NoError(p, waited(cmd))
	}()
	root, err := p.tr.Identify(uint32(cmd.Process.Pid))
	require.NoError(p, err)
	id, err := p.tr.Create(tracer.SessionSpec{Root: root, KeepOnRootExit: true})
	require.NoError(p, err)
	p.eventually(func() string {
		_, err := p.tr.Settle(id)
		require.NoError(p, err)
		_, _, err = p.tr.Reconcile()
		require.NoError(p, err)
		left := p.tr.Left()
		if left["processes"]--; left["processes"]+left["claims"] > 0 {
			return fmt.Sprintf("%v left", left)
		}
		return ""
	})
	_, err = p.tr.Dissolve(id)
	require.NoError(p, err, p.tr.Release(id))
	if p.tr.Taken(0) != 0 {
		p.wrong("%d slots are taken, and there is no session", p.tr.Taken(0))
	}
	entries, counted, err := p.tr.Classes()
	require.NoError(p, err)
	if !maps.Equal(entries, counted) {
		p.wrong("entries by class are %v, counted %v", entries, counted)
	}
}

func differ(s tracer.SessionInfo, live, dying int64) string {
	return fmt.Sprintf("has live %d, dying %d; found %d, %d", s.Live, s.Dying, live, dying)
}
