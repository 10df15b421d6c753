//go:build linux

package enforcer

import (
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// Kernel is what an end needs of the tracer; *tracer.Tracer has it. Every
// method may be called from any goroutine.
type Kernel interface {
	Identify(pid uint32) (tracer.Identity, error)
	Session(id tracer.SessionID) (tracer.SessionInfo, error)
	// Snapshot calls each for the members of id, nested sessions included, or
	// for every process of the host if id is 0.
	Snapshot(id tracer.SessionID, each func(*tracer.Process) error) error
	// End begins an end. A repeat may only shorten the deadline.
	End(id tracer.SessionID, cause tracer.Cause, grace time.Duration) error
	// Sentence signals whatever is due now, in every session.
	Sentence() (tracer.PassResult, error)
	// Settle finds members that finished dying and closes an empty session.
	Settle(id tracer.SessionID) (tracer.SessionInfo, error)
	// Reconcile enters members whose birth was missed.
	Reconcile() (added, removed int, err error)
	// MissedBirths counts since the programs were loaded.
	MissedBirths() (uint64, error)
}
