//go:build linux

package daemon

import (
	"context"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/attribution"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/httpapi"
	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/daemon/journal"
	"github.com/lineage-ebpf/lineage/daemon/recent"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/selfcheck"
	"github.com/lineage-ebpf/lineage/daemon/status"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/rs/zerolog"
)

// limits bound what a caller can make the daemon spend.
type limits struct {
	send      time.Duration // to send headers, and a body
	stall     time.Duration // a stream's reader may take nothing
	heartbeat time.Duration
	flush     time.Duration // events are gathered before they are sent
	access.Limits
}

var defaultLimits = limits{
	send: 5 * time.Second, stall: 30 * time.Second, heartbeat: 15 * time.Second, flush: 5 * time.Millisecond,
	// All sessions that may be nested in one can send requests at once.
	Limits: access.Limits{Conns: 2048, UIDConns: 512, MemberConns: registry.MaxNested, Rate: 200, Burst: 4 * registry.MaxNested, Large: 4},
}

// parts are what a service is made of, beside the host.
type parts struct {
	kernel  kernel
	self    tracer.Identity
	audit   auditLog
	journal *journal.Journal
	rules   *rules.Policy
	bootID  string
	log     zerolog.Logger
}

// service is all that runs.
type service struct {
	parts
	registry    *registry.Registry
	enforcer    *enforcer.Enforcer
	access      *access.Access
	attribution *attribution.Attribution
	recorder    *history.Recorder
	ring        *recent.Ring
	selfCheck   *selfcheck.Check
	status      *status.Status
	start       *status.Start
	api         *httpapi.Server
	clock       registry.Clock
	manager     *instance.Manager
	alone       *instance.PIDFile
	linger      time.Duration           // after the last session and client; 0: forever
	flush       time.Duration           // events are gathered before they are sent
	jobs        []func(context.Context) // of the features, in the background

	stopping chan struct{}     // closed when streams have to end
	stop     func(unload bool) // begins to stop; may be called often
	endOwner func()
}
