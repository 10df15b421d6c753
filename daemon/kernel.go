//go:build linux

package daemon

import (
	"github.com/lineage-ebpf/lineage/daemon/attribution"
	"github.com/lineage-ebpf/lineage/daemon/clients"
	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Kernel is what the daemon needs of the tracer; *tracer.Tracer has it.
type Kernel interface {
	attribution.Kernel
	clients.Kernel
	holdings.Kernel
	rules.Kernel
	Protect(pid uint32) error
	Unprotect(id tracer.Identity) error
	SelfProtect(on bool) error
	SetHalt(h tracer.Halt, ends []tracer.SessionID) error
	CloseRead() error
	Close() error
}
