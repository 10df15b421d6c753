//go:build linux

package attribution

import (
	"cmp"
	"encoding/hex"
	"errors"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// of returns what a held session has handed over.
func (a *Attribution) of(id tracer.SessionID) *brokered { return registry.Known(a.sessions, id) }

// SetToken notes the SHA-256 of a session's token.
func (a *Attribution) SetToken(_ registry.View, id tracer.SessionID, sum [32]byte) {
	a.of(id).token = sum
}

// Busy reports whether processes outside of sessions wait to be judged.
func (a *Attribution) Busy() bool { return len(a.met) > 0 }

// LookAnew makes the next walks look at all processes some times in a row again: an
// outsider may work for a new session.
func (a *Attribution) LookAnew() { a.crowd.anew.Store(true) }

// Hooks are what attribution attaches to the registry.
func (a *Attribution) Hooks() *registry.Hooks {
	return &registry.Hooks{
		Forked: func(_ registry.View, x *registry.Session, ev *tracer.Event) {
			if its := a.sessions[x.ID()]; its != nil {
				its.forked(ev)
			}
		},
		Execed: func(v registry.View, x *registry.Session, ev *tracer.Event) {
			a.of(x.ID()).began(v, x, ev)
			a.asks(v, x, ev)
			a.askAgain(x, ev.Process)
		},
		Exited: func(_ registry.View, x *registry.Session, ev *tracer.Event) {
			if its := a.sessions[x.ID()]; its != nil {
				its.left(ev)
			}
		},
		Opened: func(_ registry.View, x *registry.Session) {
			if x.Info().For != 0 { // what is remembered may be older, or lost
				its := a.of(x.ID())
				its.For, its.Weak = x.Info().For, x.Info().Weak
			}
		},
		Adopted: func(_ registry.View, x *registry.Session) {
			if !x.Info().Kept { // what it had lost before is found by evidence
				a.LookAnew()
				a.pollFaster()
			}
		},
		Forgotten: func(_ registry.View, x *registry.Session) {
			if its := a.sessions[x.ID()]; its != nil {
				a.memory.Book(x.Info().UID, -its.booked)
				delete(a.sessions, x.ID())
			}
		},
		Walking: func(v registry.View) registry.Want {
			a.crowd.horizon = a.horizon(v)
			if a.crowd.horizon == 0 {
				return registry.WantNone
			}
			return registry.WantSome
		},
		Met: func(p *tracer.Process) {
			if p == nil {
				a.crowd.walked()
				return
			}
			a.crowd.meet(p)
		},
		Sampled: func(registry.View, *registry.Look) func() { return func() { a.crowd.hand(a.met) } },
		Describe: func(v registry.View, x *registry.Session, d *document.Session) {
			w := a.work(v, x)
			d.For = cmp.Or(d.For, a.of(x.ID()).For)
			d.Work.Open, d.Work.Found = append(d.Work.Open, w.Open...), append(d.Work.Found, w.Found...)
			d.Work.Brought = append(d.Work.Brought, w.Brought...)
		},
		Persistent: a,
	}
}

// Origin is the session for which the members of a session work, 0: none.
func (a *Attribution) Origin(_ registry.View, x *registry.Session) tracer.SessionID {
	return a.of(x.ID()).For
}

// work is what a session has handed to brokers.
func (a *Attribution) work(v registry.View, x *registry.Session) document.Work {
	s := a.of(x.ID())
	w := document.Work{Found: s.brought()}
	over := x.Closed() || x.Info().State == tracer.StateEmpty
	for _, e := range s.Requests {
		if !e.Found && !e.Failed && !e.Inside {
			q := e.document()
			q.Over = over || !e.Kind.Later && e.Left != 0 && a.o.Clock.Boottime() > e.Left+uint64(settling)
			w.Open = append(w.Open, *q)
		}
	}
	w.Brought = w.Found
	if s.For != 0 {
		w.Brought = nil
		if v.Session(s.For) != nil {
			w.Brought = a.of(s.For).brought()
		}
	}
	return w
}

// brought are the processes that brokers started for the session.
func (s *brokered) brought() []document.Found {
	all := make([]document.Found, len(s.Found))
	for i, a := range s.Found {
		all[i] = document.Found{
			Process: a.Process, Comm: a.Comm, Source: a.Source, Session: a.Session,
			Ends: a.Ends, Observed: a.Observed,
		}
		if a.Asked != nil {
			all[i].Request = a.Asked.document()
		}
	}
	return all
}

func (e *request) document() *document.Request {
	return &document.Request{Broker: e.Kind.Name, Client: e.Client, Comm: e.Comm, UID: e.UID, Argv: e.Argv, ArgvTruncated: e.Cut, Time: e.Asked}
}

// Redact implements [registry.Redactor].
func (b brokered) Redact(redact func([]string) []string) {
	for _, e := range b.Requests {
		e.Argv = redact(e.Argv)
	}
}

// Remember implements [registry.Persistent]. Of the session's token it is the SHA-256, in hex. The
// token is 256 random bits, so a slower hash would gain nothing, and reading the file does not let a
// process pass for a member.
func (a *Attribution) Remember(v registry.View, x *registry.Session) []registry.Part {
	its := a.of(x.ID())
	work, token := its.clone(), ""
	work.Shared, work.token = a.o.Steward.Shared(v, x.ID()), [32]byte{}
	if its.token != [32]byte{} {
		token = hex.EncodeToString(its.token[:])
	}
	return []registry.Part{{Name: "token", Value: token}, {Name: "brokered", Value: work}}
}

// Restore implements [registry.Persistent].
func (a *Attribution) Restore(v registry.View, x *registry.Session, was registry.Parts) error {
	its, token := a.of(x.ID()), ""
	*its = brokered{}
	err := errors.Join(was.Decode("token", &token), was.Decode("brokered", its))
	a.o.Steward.SetShared(v, x.ID(), its.Shared)
	for _, e := range its.Requests {
		its.booked += e.size()
	}
	for i := range its.Found {
		its.booked += its.Found[i].size()
	}
	a.memory.Book(x.Info().UID, its.booked)
	if sum, err := hex.DecodeString(token); err == nil && len(sum) == len(its.token) {
		copy(its.token[:], sum)
	}
	return err
}
