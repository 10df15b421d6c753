package follow

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// Kind is what happened: the type of the daemon's event, or one of those below.
type Kind = api.EventType

// The kinds of records that are not an event of the daemon.
const (
	End     Kind = "end"     // a session has ended; with its receipt, if that could be read
	Status  Kind = "status"  // the daemon's status changed
	Orphans Kind = "orphans" // a session has leftovers or delegated work that it did not have before
	Busy    Kind = "busy"    // a tool call has ended, and processes that it left use the CPU
)

// EventTypes are the types of the daemon's events that become records.
var EventTypes = slices.DeleteFunc(slices.Clone(api.EventTypes), func(t api.EventType) bool {
	return t == api.EventReaped || t == api.EventMark || t == api.EventTrace
})

// Record is one thing that happened. A sink has it until it has delivered the batch.
type Record struct {
	ID   string // the same whenever the same thing is delivered again
	Kind Kind
	Host *Host
	Boot string
	Time time.Time

	// Event is the daemon's, without secrets. Nil: Status, Orphans, Busy.
	Event *api.Event
	// Session is what is known of the session. Nil: Lost, Status.
	Session *SessionInfo
	Known   *Known // what was last read of other processes; nil: nothing

	Report  *api.Report   // of End, without secrets; nil: the daemon does not have it
	Orphans []api.Orphan  // of Orphans, without secrets
	Call    *api.CallLeft // of Busy, without secrets
	Status  *api.Status   // of Status
	Before  *api.Status   // of Status; nil: the first one
}

// Process is the process that a record is about; nil: none.
func (r *Record) Process() *api.Process {
	if r.Event == nil {
		return nil
	}
	return r.Event.Process
}

type Host struct {
	ID      string // machine-id
	Name    string // host name
	Arch    string
	Kernel  string
	Version string // of the exporter
}

// SessionInfo is a session as it was read last.
type SessionInfo struct {
	api.Session
	Span    Span // lineage.session
	Unknown bool // to the daemon: only what events say is known

	over bool // the record of its end was made
}

// LogRecord is a record as a line of a log: made by an encoder.
type LogRecord struct {
	Severity int    // OpenTelemetry's number: 9 INFO, 13 WARN, 17 ERROR
	Line     string // for people
	JSON     []byte // one object
}

// Encoder turns a record into logs: none, one or more. They come one after the other, because the
// end of a session has one for each of its processes.
type Encoder func(*Record) iter.Seq[LogRecord]

// Sink is one receiver of records. Each has its own reader of the daemon's events and its
// own cursor, so that a receiver that is down does not stop the others.
type Sink interface {
	// Name is the name of its cursor: otlp, ocsf.
	Name() string
	// Deliver returns nil when the receiver has accepted the batch; the cursor moves then.
	// After an error the same batch comes again later: a sink must leave out records that the
	// receiver will never accept, and log them. Records may come again after a restart, with
	// the same ids.
	Deliver(ctx context.Context, batch []*Record) error
	// Close is called once, after the last Deliver.
	Close() error
}
