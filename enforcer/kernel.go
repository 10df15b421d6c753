//go:build linux

package enforcer

import (
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
)

// Kernel is the part of the tracer that an end needs; *tracer.Tracer implements it.
// Every method may be called from any goroutine.
type Kernel interface {
	Identify(pid uint32) (tracer.Identity, error)
	Session(id tracer.SessionID) (tracer.SessionInfo, error)
	// Snapshot calls each for the members of id, nested sessions included, or
	// for every process of the host if id is 0.
	Snapshot(id tracer.SessionID, each func(*tracer.Process) error) error
	// End begins an end. A repeated call can only shorten the grace.
	End(id tracer.SessionID, cause tracer.Cause, grace time.Duration) error
	// SetHalt replaces the halt, which ends these sessions without a grace, all at once.
	SetHalt(h tracer.Halt, ends []tracer.SessionID) error
	// Pause stops the members of a session until Resume, or until it ends.
	Pause(id tracer.SessionID) error
	Resume(id tracer.SessionID) error
	// Sentence sends all signals that are due now, in every session.
	Sentence() (tracer.PassResult, error)
	// Settle finds members that finished dying and closes an empty session.
	Settle(id tracer.SessionID) (tracer.SessionInfo, error)
	// Reconcile enters members whose birth was missed.
	Reconcile() (added, removed int, err error)
	// MissedBirths is their number since the programs were loaded.
	MissedBirths() (uint64, error)
}
