//go:build linux

package daemon

import (
	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Kernel is what the daemon needs of the tracer; *tracer.Tracer has it.
type Kernel interface {
	registry.Kernel
	holdings.Kernel
	SetTerms(id tracer.SessionID, spec tracer.SessionSpec) error
	SetAgents(agents []tracer.Agent) error
	Enter(id tracer.SessionID, p, creator tracer.Identity, source tracer.Source) error
	Raise(from, id tracer.SessionID, p, creator tracer.Identity, source tracer.Source) error
	Dissolve(id tracer.SessionID) (int, error)
	Runs(p tracer.Identity, path string) (tracer.Running, error)
	Protect(pid uint32) error
	Unprotect(id tracer.Identity) error
	SelfProtect(on bool) error
	CloseRead() error
	Close() error
}
