//go:build linux

package tracer_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// windows are scenes in which a program is held at one place until others have acted: the
// counterexamples of internal/protocol that its search found in the programs.
var windows = []scene{
	{"a younger process has the PID", younger}, {"a root forks and exits while it is entered", brief}, {"a root forks and exits while it is moved", briefKept},
	{"a root exits before it is entered", outlived},
	{"a process that is being born", newborn}, {"an exec while a session is opened over it", agentTwice},
	{"a fork up to the limit while a member moves", movesAtLimit}, {"a fork up to the limit while a reaped member is counted", reapsAtLimit},
	{"a fork with the PID of a reaped member that is counted", takesPlace}, {"a look while a reaped member is counted", looksAtReap},
	{"a reconciliation while a member exits", reconcilesAtExit},
}

// Between any two steps of a program another CPU may do anything. In the build of
// bpf/faults.h a program waits at a place, and the rest happens then.
func TestWindows(t *testing.T) {
	if _, err := os.Stat("../bpf/faults.h"); err != nil || runtime.NumCPU() < 2 {
		t.Skip("one CPU, or no sources to find places in")
	}
	if !tracertest.AtLeast(t, 6, 7) {
		return // the programs for old kernels have no loops to wait in
	}
	defer tracer.LoadFaults()()
	for name, o := range map[string]tracer.Options{"best": {}, "level 2": {Level: 2}} {
		t.Run(name, func(t *testing.T) {
			x := newTheatre(t)
			tr := faulty(t, x, o)
			for _, s := range windows {
				t.Run(s.name, func(t *testing.T) {
					for range 20 {
						if p := play(&troupe{T: t, tr: tr, theatre: x, scene: s.name}, s); !p.late {
							return
						}
					}
					t.Error("whenever a program waited it was too late for the rest")
				})
			}
			none(t, tr, "delete_failed")
		})
	}
}

// place is where the text is in a file of the sources, as the programs call it.
func place(t testing.TB, file, text string) string {
	t.Helper()
	b := require.ReadFile(t, "../bpf/"+file)
	if n := bytes.Count(b, []byte(text)); n != 1 {
		t.Fatalf("%s has %q %d times", file, text, n)
	}
	return fmt.Sprint(file, ":", 1+bytes.Count(b[:bytes.Index(b, []byte(text))], []byte("\n")))
}

const (
	atInsert = "bpf_map_update_elem(&processes, &tgid, n, BPF_NOEXIST)"
	atMove   = "swap(&e->session, from, to)"
	atSeize  = "swap(&e->start, id->start, 0)"
	atSlot   = "bpf_map_pop_elem(&free_slots, slot)"
	atReap   = "swap(&e->start, ENTRY_DEAD | id->start, ENTRY_DEAD)"
)

// held does something in which a program waits at a place until meanwhile has returned.
func (p *troupe) held(at string, do func() error, meanwhile func()) error {
	p.Helper()
	require.NoError(p, p.tr.Hold(0, at, 5*time.Second))
	p.step("a program is to wait at %s", at)
	done := make(chan error, 1)
	go func() { done <- do() }()
	until(p, "a program waits", func() bool {
		reached, err := p.tr.Held()
		require.NoError(p, err)
		return reached
	})
	meanwhile()
	late, err := p.tr.LetGo()
	require.NoError(p, err)
	p.late = p.late || late
	return <-done
}

// joins has a process fork while a verb waits, so that it is not identified.
func (p *troupe) joins(parent *actor, command string) *actor {
	p.Helper()
	p.step("%s: %s", parent.name, command)
	_, err := ask(parent.channel, command)
	require.NoError(p, err)
	return p.joined(parent.in)
}

func (p *troupe) joined(in *act) *actor {
	p.Helper()
	channel, pid, err := p.theatre.accept()
	require.NoError(p, err)
	a := &actor{name: fmt.Sprint("p", len(p.actors)), channel: channel, id: tracer.Identity{PID: pid}, in: in}
	p.actors = append(p.actors, a)
	return a
}

// stands notes a session that was opened while a program was held.
func (p *troupe) stands(id tracer.SessionID, root *actor, in *act) *act {
	s := &act{name: fmt.Sprint("s", len(p.sessions)), id: id, in: in, root: root}
	p.sessions = append(p.sessions, s)
	return s
}

// is checks in which session the kernel side has a process.
func (p *troupe) is(a *actor, want *act) {
	p.Helper()
	e, err := p.tr.Lookup(a.id.PID)
	if err != nil && !errors.Is(err, tracer.ErrNotFound) {
		require.NoError(p, err)
	}
	if e.Session != want.number() && !p.late {
		p.wrong("%s is in %s, want %s", a.name, p.called(e.Session), want.called())
	}
}

func younger(p *troupe) {
	root, a := p.fork(p.keeper), p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{KeepOnRootExit: true})
	var id tracer.SessionID
	var c *actor
	err := p.held(place(p, "session.h", atSlot)+"+", func() (err error) {
		id, err = p.tr.Create(tracer.SessionSpec{Root: a.id, KeepOnRootExit: true})
		return err
	}, func() {
		p.exit(a)
		p.reap(p.keeper, a)
		c = p.joins(root, fmt.Sprint("fork ", a.id.PID))
	})
	if err == nil {
		p.stands(id, a, nil) // its root lived still
	} else if !errors.Is(err, tracer.ErrNotFound) {
		p.wrong("create: %v", err)
	}
	p.is(c, s)
}

func brief(p *troupe) {
	a := p.fork(p.keeper)
	var id tracer.SessionID
	var c *actor
	err := p.held(place(p, "classes.h", atInsert)+"+", func() (err error) {
		id, err = p.tr.Create(tracer.SessionSpec{Root: a.id})
		return err
	}, func() {
		c = p.joins(a, "fork")
		p.exit(a)
	})
	if err != nil {
		p.is(c, nil)
		return
	}
	s := p.stands(id, a, nil)
	s.over, c.in = true, s
	p.settled(s)
}

func outlived(p *troupe) {
	a := p.fork(p.keeper)
	var id tracer.SessionID
	err := p.held(place(p, "classes.h", atInsert), func() (err error) {
		id, err = p.tr.Create(tracer.SessionSpec{Root: a.id})
		return err
	}, func() { p.exit(a) })
	if err == nil && p.late {
		s := p.stands(id, a, nil)
		s.over = true
		p.settled(s)
	} else if !errors.Is(err, tracer.ErrNotFound) {
		p.wrong("create: %v", err)
	}
}

func briefKept(p *troupe) {
	root := p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{KeepOnRootExit: true})
	a := p.fork(root)
	var id tracer.SessionID
	var c *actor
	require.NoError(p, p.tr.Hold(1, place(p, "arbiter.h", atSeize)+"+", 50*time.Millisecond))
	err := p.held(place(p, "arbiter.h", atMove)+"+", func() (err error) {
		id, err = p.tr.Create(tracer.SessionSpec{Root: a.id, KeptFrom: s.id, KeepOnRootExit: true})
		return err
	}, func() {
		c = p.joins(a, "fork")
		p.exit(a)
	})
	if err != nil {
		p.is(c, s)
		return
	}
	c.in = p.stands(id, a, nil)
	p.is(c, c.in)
}

// A kernel with the second writers enters a child before its PID leads to it.
func newborn(p *troupe) {
	if p.tr.Features().SecondWriters {
		return
	}
	root, dead := p.fork(p.keeper), p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{KeepOnRootExit: true})
	for what, verb := range map[string]func(tracer.Identity) error{
		"create": func(id tracer.Identity) error {
			made, err := p.tr.Create(tracer.SessionSpec{Root: id, KeepOnRootExit: true})
			if err == nil {
				p.stands(made, nil, nil)
			}
			return err
		},
		"own": func(id tracer.Identity) error {
			made, err := p.tr.Create(tracer.SessionSpec{Root: p.keeper.id, Owner: id, KeepOnRootExit: true})
			if err == nil {
				p.stands(made, p.keeper, nil)
			}
			return err
		},
		"protect": func(id tracer.Identity) error { return p.tr.Protect(id.PID) },
	} {
		p.exit(dead)
		p.reap(p.keeper, dead)
		pid := dead.id.PID
		var said error
		err := p.held(place(p, "classes.h", atInsert), func() error {
			_, err := ask(root.channel, fmt.Sprint("fork ", pid))
			return err
		}, func() { said = verb(tracer.Identity{PID: pid}) })
		require.NoError(p, err)
		p.is(p.joined(s), s)
		if !errors.Is(said, tracer.ErrNotFound) && !p.late {
			p.wrong("%s: %v", what, said)
		}
		dead = p.fork(p.keeper)
	}
}

func agentTwice(p *troupe) {
	root := p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{KeepOnRootExit: true})
	a := p.fork(root)
	var id tracer.SessionID
	err := p.held(place(p, "arbiter.h", atMove)+"+", func() (err error) {
		id, err = p.tr.Create(tracer.SessionSpec{Root: a.id, KeepOnRootExit: true})
		return err
	}, func() {
		_, err := ask(a.channel, "exec "+p.theatre.names["nests"])
		require.NoError(p, err)
	})
	require.NoError(p, err)
	a.in = p.stands(id, a, s)
	p.is(a, a.in)
}

func movesAtLimit(p *troupe) {
	root := p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{KeepOnRootExit: true, MaxProcesses: 3})
	inner := p.create(p.fork(root), tracer.SessionSpec{KeepOnRootExit: true})
	err := p.held(place(p, "arbiter.h", atMove)+"+", func() error {
		_, err := p.tr.Dissolve(inner.id)
		return err
	}, func() { p.joins(root, "fork") })
	require.NoError(p, err)
	inner.dissolved, inner.root.in = true, s
	if i, err := p.tr.Session(s.id); err != nil || i.State != tracer.StateActive {
		p.wrong("a session of %d, which may have 3, is %v: %v", i.Live, i.State, err)
	}
}

func reapsAtLimit(p *troupe) {
	root := p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{KeepOnRootExit: true, MaxProcesses: 3})
	a := p.fork(root)
	p.fork(root)
	p.exit(a)
	err := p.held(place(p, "arbiter.h", atReap)+"+", func() error {
		p.reap(root, a)
		_, err := p.tr.Settle(s.id)
		return err
	}, func() { p.joins(root, "fork") })
	require.NoError(p, err)
	if i, err := p.tr.Session(s.id); err != nil || i.State != tracer.StateActive {
		p.wrong("a session of %d, which may have 3, is %v: %v", i.Live, i.State, err)
	}
}

// The birth does not wait for long. The child is not killed, but runs without an entry until a reconcile pass.
func takesPlace(p *troupe) {
	root := p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{KeepOnRootExit: true})
	a := p.fork(root)
	p.exit(a)
	var c *actor
	err := p.held(place(p, "arbiter.h", atReap)+"+", func() error {
		p.reap(root, a)
		_, err := p.tr.Settle(s.id)
		return err
	}, func() {
		c = p.joins(root, fmt.Sprint("fork ", a.id.PID))
		if i, err := p.tr.Session(s.id); !p.late && (err != nil || i.Unentered != 1) {
			p.wrong("%d are not entered: %v", i.Unentered, err)
		}
	})
	require.NoError(p, err)
	_, _, err = p.tr.Reconcile()
	require.NoError(p, err)
	p.is(c, s)
}

// The look leaves the entry to its counter, which deletes it.
func looksAtReap(p *troupe) {
	root := p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{KeepOnRootExit: true})
	a := p.fork(root)
	p.exit(a)
	require.NoError(p, p.held(place(p, "arbiter.h", atReap)+"+", func() error { p.reap(root, a); return nil }, func() {
		_, err := p.tr.Settle(s.id)
		require.NoError(p, err)
	}))
}

func reconcilesAtExit(p *troupe) {
	root := p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{})
	require.NoError(p, p.held(place(p, "death.h", "x = reserve(struct event_exit)"), func() error { p.exit(root); return nil }, func() {
		_, _, err := p.tr.Reconcile()
		require.NoError(p, err)
		if info, err := p.tr.Settle(s.id); err != nil || info.State == tracer.StateEmpty && !root.gone() {
			p.wrong("over before its member has closed its files: %+v, %v", info, err)
		}
	}))
}
