//go:build linux

package tracer_test

import (
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// actor is a process that does what the scene says. A nil one was never born.
type actor struct {
	name    string
	id      tracer.Identity
	channel int
	in      *act // the session that it belongs to; nil: none
	exited  bool // it was told to
	missed  bool // it could not be entered at its birth: a reconcile pass without room kills it
}

type act struct {
	name      string
	id        tracer.SessionID
	in        *act
	root      *actor
	over      bool // its end has begun
	patient   bool // with a grace
	dissolved bool
	released  bool
}

func (s *act) home() *act {
	for s != nil && (s.dissolved || s.released) {
		s = s.in
	}
	return s
}

func (s *act) number() tracer.SessionID {
	if s == nil {
		return 0
	}
	return s.id
}

func (s *act) called() string {
	if s == nil {
		return "none"
	}
	return s.name
}

// doomed reports whether the end of the session, or of one around it, has begun.
func (s *act) doomed() bool {
	for ; s != nil; s = s.in {
		if s.over && !s.dissolved {
			return true
		}
	}
	return false
}

func (s *act) within(of *act) bool {
	for ; s != nil; s = s.in {
		if s == of {
			return true
		}
	}
	return false
}

func (a *actor) mayDie() bool { return a.missed || a.in.doomed() }

func (a *actor) gone() bool { return a.exited || gone(a.channel) }

func (a *actor) leaves() {
	if a.channel > 0 {
		unix.Close(a.channel)
	}
	a.channel = 0
}
