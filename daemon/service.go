//go:build linux

package daemon

import (
	"context"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/attribution"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/httpapi"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/status"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
)

// Limits bound what a caller can make the daemon spend.
type Limits struct {
	Send      time.Duration // to send headers, and a body
	Stall     time.Duration // a stream's reader may take nothing
	Heartbeat time.Duration
	Flush     time.Duration // events are gathered before they are sent
	Before    time.Duration // the longest that a first signal waits for what is held; default 40 ms
	access.Limits
}

var DefaultLimits = Limits{
	Send: 5 * time.Second, Stall: 30 * time.Second, Heartbeat: 15 * time.Second, Flush: 5 * time.Millisecond,
	// All sessions that may be nested in one can send requests at once.
	Limits: access.Limits{Conns: 2048, UIDConns: 512, MemberConns: registry.MaxNested,
		Rate: 200, Burst: 4 * registry.MaxNested, Large: 4},
}

// parts are what a service is made of, beside the host.
type parts struct {
	kernel   Kernel
	self     tracer.Identity
	audit    *access.AuditLog
	journal  history.Store
	rules    *rules.Policy
	bootID   string
	commands string // the file in which signed commands are remembered
	log      zerolog.Logger
}

type Service struct {
	host        Host
	parts       parts
	Rules       *rules.Policy
	Registry    *registry.Registry
	Enforcer    *enforcer.Enforcer
	Access      *access.Access
	Attribution *attribution.Attribution
	Recorder    *history.Recorder
	Ring        *history.Ring
	selfCheck   *status.Check
	status      *status.Status
	start       *status.Start
	API         *httpapi.Server
	alone       *system.PIDFile
	linger      time.Duration           // after the last session and client; 0: forever
	Jobs        []func(context.Context) // of the features, in the background

	stopping    chan struct{}     // closed when streams have to end
	stop        func(unload bool) // begins to stop; may be called often
	EndRegistry func()
}

// Kernel is what the daemon needs of the tracer; *tracer.Tracer has it.
type Kernel interface {
	registry.Kernel
	Protect(pid uint32) error
	Unprotect(id tracer.Identity) error
	SelfProtect(on bool) error
	CloseRead() error
	Close() error
}
