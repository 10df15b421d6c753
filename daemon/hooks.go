//go:build linux

package daemon

import (
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Hooks are what a feature attaches to the registry, which knows no feature by
// name. Each is called in the registry's goroutine, those that were attached first
// come first; what is nil is left out. A hook must not block.
type Hooks struct {
	// Published has events that readers get, after the graph took them. They are
	// those of a batch: nobody may keep them.
	Published func(View, []tracer.Event)
	// Sampled has a look at the kernel, after graph and sessions took it.
	Sampled func(View, *Look)

	// Changed: what a session looks like may be new.
	Changed func(View, tracer.SessionID)
	// Closed: a session is over, and its record is released.
	Closed func(View, *Session)
	// Forgotten: a session is not held any more.
	Forgotten func(View, *Session)
}

// Look is what one walk over all processes of the host saw.
type Look struct {
	At   uint64 // boottime
	Seen []lineage.Seen
}

// attach adds a feature. It is called before run.
func (o *Registry) attach(h *Hooks) { o.hooks = append(o.hooks, h) }

// publish gives events to the readers.
func (o *Registry) publish(events ...tracer.Event) {
	if len(events) == 0 {
		return
	}
	for _, h := range o.hooks {
		if h.Published != nil {
			h.Published(View{o}, events)
		}
	}
}

// looked ends a look.
func (o *Registry) looked(l *Look) {
	for _, h := range o.hooks {
		if h.Sampled != nil {
			h.Sampled(View{o}, l)
		}
	}
}

func (o *Registry) closed(s *Session) {
	for _, h := range o.hooks {
		if h.Closed != nil {
			h.Closed(View{o}, s)
		}
	}
}

func (o *Registry) forgotten(s *Session) {
	for _, h := range o.hooks {
		if h.Forgotten != nil {
			h.Forgotten(View{o}, s)
		}
	}
}

// changed notes that what a session looks like may be new.
func (o *Registry) changed(id tracer.SessionID) {
	for _, h := range o.hooks {
		if h.Changed != nil {
			h.Changed(View{o}, id)
		}
	}
}
