//go:build linux

package registry

import (
	"errors"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Hooks are what a feature attaches to the registry, which knows no feature by name.
// Hooks with a View are called in the registry's goroutine; nil hooks are skipped. A
// feature must not depend on the order of the features. A hook must not block, and must
// not call Read or Update: all that it needs is in its View.
type Hooks struct {
	// Forked, Execed and Exited get an event of a member, before the graph applies it.
	Forked, Execed, Exited eventHook
	// RootDied: the root of a session is dead, according to an event or a look.
	RootDied sessionHook
	// Told gets the events about moves of members to other cgroups, and may complete them, and about TCP
	// sockets on which members listen. The session of one that was closed may be nil.
	Told eventHook
	// Published gets the events that readers get, after the graph applied them. They
	// belong to a batch: do not keep them.
	Published func(View, []tracer.Event)

	// Opened: the registry holds a session from now on. Its memory was already restored.
	Opened sessionHook
	// Adopted: a session was opened over running processes, outsiders or members of another one,
	// and they were entered.
	Adopted sessionHook
	// Ending: a session has begun to end, and may have members.
	Ending sessionHook
	// Concluding gets a receipt before it is written, and may add to it, or ask to wait. Then it
	// calls Tx.Conclude later. Ended is set if all members are gone.
	Concluding func(View, *Session, *api.Report) (wait bool)
	// Changed: the document of a session may be different.
	Changed func(View, tracer.SessionID)
	// Saved: what is remembered of a session across daemon restarts may be different.
	Saved sessionHook
	// Reported: the receipt of a session was written, the first or a better one.
	Reported sessionHook
	// Closed: a session has ended, and the kernel's record of it is released.
	Closed sessionHook
	// Forgotten: the registry no longer holds a session.
	Forgotten sessionHook

	// Walking is called before a look, and returns which looks the feature wants.
	Walking func(View) Want
	// Met is called for each process of the look, and with nil after the last one, in the
	// goroutine that looks.
	Met func(*tracer.Process)
	// Sampled gets the look, after graph and sessions applied it. If it returns a
	// function, that runs in the goroutine that looks, before the look is over.
	Sampled func(View, *Look) (after func())

	// Describe adds to a session's document what the feature knows.
	Describe func(View, *Session, *document.Session)
	// Persistent is the part of a feature that outlives the daemon.
	Persistent Persistent
}

// Persistent is a feature that remembers something of a session across daemon restarts, under
// names of its own.
type Persistent interface {
	Remember(View, *Session) []Part
	Restore(View, *Session, Parts) error
}

// Want is what looks a feature wants.
type Want int

// The least comes first.
const (
	WantNone Want = iota // none, unless there is a session
	WantSome             // some, even without a session, while something happens on the host
	WantEach             // one each period, even if nothing happens
)

// Look is what one walk over all processes of the host saw.
type Look struct {
	Resync
	Seen []lineage.Seen

	failed error
}

// Fail notes that a feature could not read what it needs, if err is not nil.
func (l *Look) Fail(err error) { l.failed = errors.Join(l.failed, err) }

type (
	sessionHook = func(View, *Session)
	eventHook   = func(View, *Session, *tracer.Event)
)

// notify calls one kind of hook of all features.
func (v View) notify(s *Session, kind func(*Hooks) sessionHook) {
	for _, h := range v.r.hooks {
		if f := kind(h); f != nil {
			f(v, s)
		}
	}
}

func (v View) notifyEvent(s *Session, ev *tracer.Event, kind func(*Hooks) eventHook) {
	for _, h := range v.r.hooks {
		if f := kind(h); f != nil {
			f(v, s, ev)
		}
	}
}

func (v View) publish(events ...tracer.Event) {
	if len(events) == 0 {
		return
	}
	for _, h := range v.r.hooks {
		if h.Published != nil {
			h.Published(v, events)
		}
	}
}

func (v View) wanted() (most Want) {
	for _, h := range v.r.hooks {
		if h.Walking != nil {
			most = max(most, h.Walking(v))
		}
	}
	return most
}

func (v View) looked(l *Look) (after []func()) {
	for _, h := range v.r.hooks {
		if h.Sampled == nil {
			continue
		}
		if f := h.Sampled(v, l); f != nil {
			after = append(after, f)
		}
	}
	return after
}

// concluding calls the hooks before a receipt is written, and reports whether one asks to wait.
func (v View) concluding(s *Session, report *api.Report) (wait bool) {
	for _, h := range v.r.hooks {
		if h.Concluding != nil && h.Concluding(v, s, report) {
			wait = true
		}
	}
	return wait
}

func (v View) Changed(id tracer.SessionID) {
	for _, h := range v.r.hooks {
		if h.Changed != nil {
			h.Changed(v, id)
		}
	}
}

func (v View) Save(s *Session) {
	v.notify(s, func(h *Hooks) sessionHook { return h.Saved })
}
