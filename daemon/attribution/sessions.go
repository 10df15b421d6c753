//go:build linux

package attribution

import (
	"cmp"
	"encoding/hex"
	"errors"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
)

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

func (a *Attribution) Hooks() *registry.Hooks {
	return &registry.Hooks{
		Forked: a.forked,
		Execed: func(v registry.View, x *registry.Session, ev *tracer.Event) {
			a.of(x.ID()).began(v, x, ev)
			a.asks(v, x, ev)
			a.askAgain(x, ev.Process)
		},
		Exited: a.left,
		Opened: func(v registry.View, x *registry.Session) {
			if x.Info().For != 0 { // what is remembered may be older, or lost
				its := a.of(x.ID())
				its.For, its.Weak = x.Info().For, x.Info().Weak
			}
			for _, r := range a.commands(v, func(r *request) bool { return r.Session != 0 }) {
				a.tell(v, r) // as remembered
			}
		},
		Adopted: func(_ registry.View, x *registry.Session) {
			if !x.Info().Kept { // what it had lost before is found by evidence
				a.LookAnew()
				system.Offer(a.asked, struct{}{})
			}
		},
		Forgotten: func(v registry.View, x *registry.Session) {
			its := a.of(x.ID())
			if x.RootDied() != 0 {
				a.answered(v, &its.command, x.Info().Created)
			}
			a.memory.Book(x.Info().UID, -its.booked)
			delete(a.sessions, x.ID())
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
		Sampled: func(registry.View, *registry.Look) func() {
			return func() {
				a.crowd.hand(a.met)
				system.Offer(a.due, struct{}{})
			}
		},
		Changed:    a.changed,
		Describe:   a.describe,
		Persistent: a,
	}
}

// Origin is the session for which the members of a session work, 0: none.
func (a *Attribution) Origin(_ registry.View, x *registry.Session) tracer.SessionID {
	return a.of(x.ID()).For
}

func (a *Attribution) describe(v registry.View, x *registry.Session, d *document.Session) {
	s, w := a.of(x.ID()), &d.Work
	over := x.Closed() || x.Info().State == tracer.StateEmpty
	for _, e := range s.Requests {
		if !e.Found && !e.Failed && !e.Inside && !e.Brief && e.Session == 0 {
			q := e.document()
			q.Over, q.Unsure = over || !e.Kind.Later && e.Left != 0 && a.o.Clock.Boottime() > e.Left+
				uint64(settling), e.Unsure
			w.Open = append(w.Open, *q)
		}
	}
	w.Found = a.brought(v, x)
	if s.For == 0 {
		w.Brought = w.Found
	}
	if d.For = cmp.Or(s.command.Asker, s.For); v.Session(d.For) != nil {
		w.Brought = append(w.Brought, a.brought(v, v.Session(d.For))...)
	}
}

// brought are the processes that brokers started for the session, and the commands in containers.
func (a *Attribution) brought(v registry.View, x *registry.Session) (all []document.Found) {
	for _, f := range a.of(x.ID()).Found {
		found := document.Found{Process: f.Process, Comm: f.Comm, Source: f.Source,
			Session: f.Session, Ends: f.Ends, Observed: f.Observed}
		if f.Asked != nil {
			found.Request = f.Asked.document()
		}
		all = append(all, found)
	}
	for _, e := range a.of(x.ID()).Requests {
		if e.Session == 0 {
			continue
		}
		found := document.Found{Process: e.Root, Source: tracer.SourceContainer,
			Request: e.document(), Session: e.Session}
		if of := v.Session(e.Session); of != nil && rules.EndsWithClient(a.o.Rules.Policy(), of.Info()) {
			found.Ends = a.o.Rules.Enforced(of.Info().UID)
			found.Observed = !found.Ends
		}
		all = append(all, found)
	}
	return all
}

func (e *request) document() *document.Request {
	return &document.Request{Broker: e.Kind.Name, Client: e.Client, Comm: e.Comm, UID: e.UID,
		Argv: e.Argv, ArgvTruncated: e.Cut, Time: e.Asked}
}

// Redact implements [registry.Redactor].
func (b brokered) Redact(redact func([]string) []string) {
	command{Requests: b.Requests}.Redact(redact)
}

// Redact implements [registry.Redactor].
func (c command) Redact(redact func([]string) []string) {
	for _, e := range c.Requests {
		e.Argv = redact(e.Argv)
	}
}

// Remember implements [registry.Persistent]. Of the session's token it is the SHA-256, in hex. The
// token is 256 random bits, so a slower hash would gain nothing, and reading the file does not let a
// process pass for a member.
func (a *Attribution) Remember(v registry.View, x *registry.Session) []registry.Part {
	work, token := a.of(x.ID()).clone(), ""
	if work.token != [32]byte{} {
		token = hex.EncodeToString(work.token[:])
	}
	commands := work.command
	work.Shared, work.command = a.o.Steward.Shared(v, x.ID()), command{}
	return []registry.Part{{Name: "token", Value: token}, {Name: "brokered", Value: work},
		{Name: "clients", Value: commands}}
}

func (a *Attribution) Restore(v registry.View, x *registry.Session, was registry.Parts) error {
	its, token := a.of(x.ID()), ""
	*its = brokered{}
	err := errors.Join(was.Decode("token", &token), was.Decode("brokered", its),
		was.Decode("clients", &its.command))
	a.o.Steward.SetShared(v, x.ID(), its.Shared)
	its.Requests = append(its.Requests, its.command.Requests...)
	its.command.Requests = nil
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
