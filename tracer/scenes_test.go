//go:build linux

package tracer_test

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/tracer"
)

// scene is a fixed sequence of steps. Each step does without the processes and sessions
// that an earlier one did not get.
type scene struct {
	name string
	play func(*troupe)
}

var scenes = []scene{
	{"life", life}, {"nest", nest}, {"adopt", adopted}, {"keep", keep}, {"agents", agentsOpen}, {"root",
		rootExits}, {"limit", overLimit}, {"verbs", verbs}, {"again", again},
}

func life(p *troupe) {
	owner, root := p.fork(p.keeper), p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{Owner: owner.id})
	a, b := p.fork(root), p.fork(root)
	c := p.fork(a)
	d := p.bear(root, "vfork "+p.theatre.names["other"])
	p.exec(a, "other")
	p.tell(b, "listen")
	p.exit(c)
	p.reap(a, c)
	p.exit(d)
	p.tell(b, "setsid")
	p.fork(b)
	p.reap(root, d)
	p.tell(b, "close")
	p.exit(a)
	p.end(s, 0)
	p.settled(s)
}

// again has PIDs used anew at once: the kernel has not reported that the dead before were waited for.
func again(p *troupe) {
	root := p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{KeepOnRootExit: true})
	for a := p.fork(root); a != nil && len(p.actors) < 7; a = p.bear(root, fmt.Sprint("fork ", a.id.PID)) {
		p.exit(a)
		p.reap(root, a)
	}
	p.end(s, 0)
	p.settled(s)
}

func nest(p *troupe) {
	root := p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{})
	q := p.fork(root)
	t := p.create(q, tracer.SessionSpec{})
	x := p.fork(q)
	y := p.fork(x)
	p.exit(y)
	z := p.fork(root)
	p.end(t, 0)
	p.settled(t)
	if p.verb(t, "release", func() error { return p.tr.Release(t.id) }) {
		t.released = true
	}
	p.reap(root, q)
	p.tell(z, "defy")
	v := p.fork(z)
	p.end(s, hour)
	p.fork(v)
	p.end(s, 0)
}

func adopted(p *troupe) {
	root := p.fork(p.keeper)
	a := p.fork(root)
	b := p.fork(a)
	c := p.fork(b)
	owned := p.create(p.fork(p.keeper), tracer.SessionSpec{Owner: a.id, KeepOnRootExit: true})
	s := p.create(root, tracer.SessionSpec{Adopted: true, KeepOnRootExit: true})
	if p.verb(s, "adopt for", func() error { _, err := p.tr.Adopt(s.id, 0); return err }) {
		for _, m := range []*actor{a, b, c} {
			m.in = s
		}
	}
	p.fork(b)
	p.exit(a)
	if owned != nil {
		owned.over = true
	}
	p.reap(root, a)
	p.fork(root)
}

func keep(p *troupe) {
	root := p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{})
	q := p.fork(root)
	x := p.fork(q)
	other := p.fork(root)
	if s == nil || q == nil {
		return
	}
	k := p.create(q, tracer.SessionSpec{KeptFrom: s.id, KeepOnRootExit: true})
	if p.verb(k, "follow to", func() error { _, err := p.tr.Follow(s.id, k.id); return err }) && x != nil {
		x.in = k
	}
	p.fork(x)
	p.fork(other)
	p.end(s, 0)
	p.settled(s)
	p.fork(x)
}

func agentsOpen(p *troupe) {
	a := p.fork(p.keeper)
	p.exec(a, "nests")
	b := p.fork(a)
	t := p.exec(b, "nests")
	c := p.fork(b)
	if p.verb(t, "dissolve", func() error { _, err := p.tr.Dissolve(t.id); return err }) {
		t.dissolved = true
	}
	p.fork(c)
	if t != nil && t.dissolved && p.verb(t, "release", func() error { return p.tr.Release(t.id) }) {
		t.released = true
	}
	p.exit(c)
	p.reap(b, c)
	d := p.fork(a)
	p.exec(d, "other")
}

func rootExits(p *troupe) {
	root := p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{})
	a := p.fork(root)
	b := p.fork(a)
	p.tell(a, "defy")
	inner := p.create(a, tracer.SessionSpec{KeepOnRootExit: true})
	p.fork(a)
	p.fork(b)
	p.exit(root)
	p.settled(inner)
	p.settled(s)
	p.reap(p.keeper, root)
}

func overLimit(p *troupe) {
	root := p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{MaxProcesses: 4})
	a := p.fork(root)
	p.fork(a)
	p.fork(a)
	if s == nil {
		return
	}
	s.over = true // by the next birth, unless one before was not entered
	p.fork(a)
	if info, err := p.tr.Session(s.id); err == nil {
		s.over = info.State != tracer.StateActive
	}
	p.settled(s)
}

func verbs(p *troupe) {
	root, out := p.fork(p.keeper), p.fork(p.keeper)
	guarded := p.fork(p.keeper)
	s := p.create(root, tracer.SessionSpec{KeepOnRootExit: true})
	t := p.create(out, tracer.SessionSpec{KeepOnRootExit: true})
	if s == nil || t == nil {
		return
	}
	p.verb(s, "protect beside", func() error { return p.tr.Protect(guarded.id.PID) })
	a, b := p.fork(root), p.fork(root)
	p.verb(s, "set terms of", func() error { return p.tr.SetTerms(s.id, tracer.SessionSpec{KeepOnRootExit: true, MaxProcesses: 9}) })
	if a != nil && p.verb(t, "move to", func() error { return p.tr.Move(a.id, s.id, t.id) }) {
		a.in = t
	}
	late := p.fork(p.keeper)
	if p.verb(t, "enter for", func() error { return p.tr.Enter(0, t.id, late.id, tracer.Identity{}, tracer.SourceEnv) }) {
		late.in = t
	}
	p.fork(b)
	p.entered(s)
	p.verb(s, "unprotect beside", func() error { return p.tr.Unprotect(guarded.id) })
	p.end(t, 0)
	p.settled(t)
}
