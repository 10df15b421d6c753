//go:build linux

package registry

import (
	"encoding/json"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Hooks are what a feature attaches to the registry, which knows no feature by
// name. Those that get a View are called in the registry's goroutine, in the order in
// which the features were attached; what is nil is left out. A hook must not block, and
// calls neither Read nor Update: all that it needs is in its View.
type Hooks struct {
	// Forked, Execed and Exited have an event of a member, before the graph takes it.
	Forked, Execed, Exited eventHook
	// RootDied: the root of a session is dead, as an event or a look says.
	RootDied sessionHook
	// Published has the events that readers get, after the graph took them. They are
	// those of a batch: nobody may keep them.
	Published func(View, []tracer.Event)

	// Opened: a session is held from now on. Its own memory was restored before.
	Opened sessionHook
	// Adopted: a session was opened over processes that were running.
	Adopted sessionHook
	// Changed: what a session looks like may be new.
	Changed func(View, tracer.SessionID)
	// Saved: what is remembered of a session beyond the daemon's life may be new.
	Saved sessionHook
	// Ending: the kernel ends a session, for that cause.
	Ending func(View, *Session, tracer.Cause)
	// Reported: the receipt of a session was written, the first or a better one.
	Reported sessionHook
	// Closed: a session is over, and the kernel's record of it is released.
	Closed sessionHook
	// Forgotten: a session is not held any more.
	Forgotten sessionHook

	// Walking comes before a look, and says what looks the feature wants.
	Walking func(View) Want
	// Met has each process of the look, and Walked comes behind the last: both in the
	// goroutine that looks.
	Met    func(*tracer.Process)
	Walked func()
	// Sampled has the look, after graph and sessions took it. What it returns, if that
	// is not nil, runs in the goroutine that looks, before the look is over.
	Sampled func(View, *Look) (after func())

	// Describe adds to a session's document what the feature knows.
	Describe func(View, *Session, *document.Session)
	// Origin is the session that what this one holds came from, 0: none.
	Origin func(View, *Session) tracer.SessionID
	// Persistent is what of a feature outlives the daemon.
	Persistent Persistent
}

// Persistent is a feature that remembers something of a session beyond the daemon's
// life. Restore gets the JSON of all features, each of which has keys of its own.
type Persistent interface {
	Remember(View, *Session) Memory
	Restore(View, *Session, json.RawMessage)
}

// Memory is encoded as a JSON object, outside of the registry's goroutine. Before, it
// replaces its command lines by redacted ones.
type Memory interface {
	Redact(func(argv []string) []string)
}

// Want is what looks a feature wants.
type Want int

// The least comes first.
const (
	WantNone Want = iota // none, if there is no session
	WantSome             // some even then, while something happens on the host
	WantEach             // one each period, although nothing happens
)

// Look is what one walk over all processes of the host saw.
type Look struct {
	At   uint64 // boottime
	Seen []lineage.Seen
}

type (
	sessionHook = func(View, *Session)
	eventHook   = func(View, *Session, *tracer.Event)
)

// notify calls one kind of hook of all features.
func (v View) notify(s *Session, kind func(*Hooks) sessionHook) {
	for _, h := range v.o.hooks {
		if f := kind(h); f != nil {
			f(v, s)
		}
	}
}

func (v View) notifyEvent(s *Session, ev *tracer.Event, kind func(*Hooks) eventHook) {
	for _, h := range v.o.hooks {
		if f := kind(h); f != nil {
			f(v, s, ev)
		}
	}
}

// publish gives events to the readers.
func (v View) publish(events ...tracer.Event) {
	if len(events) == 0 {
		return
	}
	for _, h := range v.o.hooks {
		if h.Published != nil {
			h.Published(v, events)
		}
	}
}

// wanted comes before a look, and is what the features want at most.
func (v View) wanted() (most Want) {
	for _, h := range v.o.hooks {
		if h.Walking != nil {
			most = max(most, h.Walking(v))
		}
	}
	return most
}

// looked comes at the end of a look; what it returns comes behind.
func (v View) looked(l *Look) (after []func()) {
	for _, h := range v.o.hooks {
		if h.Sampled == nil {
			continue
		}
		if f := h.Sampled(v, l); f != nil {
			after = append(after, f)
		}
	}
	return after
}

// Changed notes that what a session looks like may be new.
func (v View) Changed(id tracer.SessionID) {
	for _, h := range v.o.hooks {
		if h.Changed != nil {
			h.Changed(v, id)
		}
	}
}

// Save notes that a session is to be written to the history.
func (v View) Save(s *Session) {
	v.notify(s, func(h *Hooks) sessionHook { return h.Saved })
}
