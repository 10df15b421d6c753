//go:build linux

package daemon

import (
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
)

// kernel is what the daemon needs of the tracer; *tracer.Tracer has it. Read
// is called from one goroutine, everything else from any.
type kernel interface {
	enforcer.Kernel
	Features() tracer.Features
	Read(ev *tracer.Event) error
	Flush() error
	Lookup(pid uint32) (tracer.Entry, error)
	Sessions() ([]tracer.SessionInfo, error)
	Create(spec tracer.SessionSpec) (tracer.SessionID, error)
	SetTerms(id tracer.SessionID, spec tracer.SessionSpec) error
	SetAgents(agents []tracer.Agent) error
	OpenMissedAgents() (int, error)
	Adopt(id tracer.SessionID) (int, error)
	Enter(id tracer.SessionID, p, creator tracer.Identity, source tracer.Source) error
	Raise(from, id tracer.SessionID, p, creator tracer.Identity, source tracer.Source) error
	Follow(from, id tracer.SessionID) (int, error)
	Move(p tracer.Identity, from, to tracer.SessionID) error
	Dissolve(id tracer.SessionID) (int, error)
	Release(id tracer.SessionID) error
	Protect(pid uint32) error
	SelfProtect(on bool) error
	Counters() (map[string]uint64, error)
	RecursionMisses() (map[string]uint64, error)
	CloseRead() error
	Close() error
}
