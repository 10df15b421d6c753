//go:build linux

package daemon

import (
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/tracer"
)

// View is the graph and the sessions as they are, for as long as the call runs that
// it was given to: it comes from the registry's goroutine and is of no use
// elsewhere.
type View struct{ o *Registry }

// Session finds a session that is held, nil if it is not.
func (v View) Session(id tracer.SessionID) *Session { return v.o.sessions[id] }

// Changed tells the features that what a session looks like may be new.
func (v View) Changed(id tracer.SessionID) { v.o.changed(id) }

// Save tells the features that what is remembered of a session may be new.
func (v View) Save(s *Session) { v.o.save(s) }

// Live counts the sessions that are not over.
func (v View) Live() int { return v.o.live() }

// Scope is a session as access sees it.
func (v View) Scope(s *Session) access.Scope { return v.o.scope(s) }
