// Package record is what the exporter delivers: one thing that happened, with everything
// that a receiver needs to understand it.
package record

import (
	"iter"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// Kind is what happened.
type Kind string

// The kinds of records. The first ones are the daemon's events: see api.Event.
const (
	Fork     Kind = Kind(api.EventFork)
	Exec     Kind = Kind(api.EventExec)
	Exit     Kind = Kind(api.EventExit)
	Reparent Kind = Kind(api.EventReparent)
	Listen   Kind = Kind(api.EventListen)
	Unlisten Kind = Kind(api.EventUnlisten)
	Stop     Kind = Kind(api.EventStop)
	Continue Kind = Kind(api.EventContinue)
	Crossing Kind = Kind(api.EventCrossing)
	Session  Kind = Kind(api.EventSession) // it began, or its state changed
	End      Kind = "end"                  // it has ended; with its receipt, if that could be read
	Lost     Kind = Kind(api.EventLost)    // events are missing, that neither the stream nor the history has
	Open     Kind = "open"                 // an image or a session is older than OpenAfter
	Status   Kind = "status"               // the daemon's status changed
	Orphans  Kind = "orphans"              // a session has leftovers or brokered work that it did not have before
	Busy     Kind = "busy"                 // a tool call has ended, and processes that it left use the CPU
)

// Types are the types of the daemon's events that become records.
var Types = []api.EventType{
	api.EventFork, api.EventExec, api.EventExit, api.EventReparent, api.EventSession, api.EventListen, api.EventUnlisten, api.EventStop, api.EventContinue, api.EventCrossing, api.EventLost,
}

// Record is one thing that happened. Nothing that it refers to changes later, so that
// sinks may keep it.
type Record struct {
	ID   string // the same whenever the same thing is delivered again
	Kind Kind
	Host *Host
	Boot string
	Time time.Time

	// Event is the daemon's, its command line redacted. Nil: Open, Status, Orphans, Busy.
	Event *api.Event
	// Session is what is known of the session. Nil: Lost, Status.
	Session *SessionInfo
	// Process is the process of the event, as it is after the event. Nil: Session, End,
	// Lost, Status, and Open of a session.
	Process *Process
	Was     *Image // of Exec: the program before
	// Ended are the images that the event ended: for Exec the previous program, for Exit the
	// last one, for End those whose exits no event reported. That of Open is still running.
	Ended []*Run

	Report  *api.Report          // of End, with redacted command lines; nil: the daemon does not have it
	Members map[api.Ref]*Process // of End and Orphans: the session's processes, as far as they are remembered
	Orphans []api.Orphan         // of Orphans, with redacted command lines
	Call    *api.CallLeft        // of Busy, with redacted command lines
	Status  *api.Status          // of Status
	Before  *api.Status          // of Status; nil: the first one
}

// Host is the host of the events.
type Host struct {
	ID      string `json:"id"`   // machine-id
	Name    string `json:"name"` // host name
	Arch    string `json:"arch"`
	Kernel  string `json:"kernel"`
	Version string `json:"version"` // of the exporter
}

// SessionInfo is a session as far as it is known.
type SessionInfo struct {
	api.Session             // as the daemon described it last
	Span        Span        `json:"span"`              // lineage.session
	Marks       []api.Event `json:"marks,omitempty"`   // its states, at most MaxMarks
	Opened      bool        `json:"opened,omitempty"`  // its Open was made
	Unknown     bool        `json:"unknown,omitempty"` // to the daemon: only what events say is known
}

// Process is a process and the program that it runs.
type Process struct {
	Image     *Image    // that it runs, or ran last
	Session   string    // id
	Parent    *api.Ref  // the kernel's, as far as events report it
	Created   time.Time // when it was forked; zero: not known
	Evidence  *api.Evidence
	Cgroup    string
	Container *api.Container
	Exited    time.Time // zero: it is alive
	ExitCode  *int
	Signal    string // that it died of
	Killer    *api.Sender

	Span  Span       // of Image; below what the agent claims, if it claims anything
	Trace *api.Trace // claimed, its own or inherited
	Calls []api.Call // claimed: the tool calls that it may belong to
}

// Image is one program in the life of a process: from its fork or from an exec on. It
// does not change.
type Image struct {
	api.Ref
	Forked        bool // no exec since the fork: it is its creator's program
	Comm          string
	Exe           string
	Argv          []string // redacted, and cut at MaxArgv or before; nil: not readable
	ArgvTruncated bool
	UID           *int
	Began         time.Time // fork or exec; of a process that ran before the exporter began: its fork
	BeganNS       uint64    // boottime; 0: not known
	Creator       *Image    // the program of the creator at the fork; nil: not known, or cut
	CreatorRef    *api.Ref  // the creator, also where Creator is nil
	Depth         int       // how many of its creators are known
	Span          SpanID
}

// Run is an image and what happened to it, up to its end or up to now.
type Run struct {
	Image    *Image
	Session  string // id
	Span     Span
	Created  time.Time // of the process
	Until    time.Time
	Running  bool // of Open
	Opened   bool // an Open came before
	ExitCode *int
	Signal   string
	Killer   *api.Sender
	Marks    []api.Event // reparent, listen, unlisten, stop, continue, crossing: at most MaxMarks
	Dropped  int         // marks for which there was no room
}

// The bounds of a record.
const (
	MaxArgv     = 1 << 10         // bytes of a command line that the model remembers
	MaxAncestry = 64              // creators in Ancestry
	MaxMarks    = 32              // of one image
	OpenAfter   = 1 * time.Minute // an image or a session that lives longer has two spans
)

// Ancestry is the images that led to this one, the newest first.
func (i *Image) Ancestry() (all []*Image) {
	for a := i.Creator; a != nil && len(all) < MaxAncestry; a = a.Creator {
		all = append(all, a)
	}
	return all
}

// Log is a record as a line of a log: made by an encoder.
type Log struct {
	Time     time.Time
	Severity int    // OpenTelemetry's number: 9 INFO, 13 WARN, 17 ERROR
	Line     string // for people
	JSON     []byte // one object
}

// Encoder turns a record into logs: none, one or more. They come one after the other, because the
// end of a session has one for each of its processes. An error is about one of them.
type Encoder interface {
	Encode(*Record) iter.Seq2[Log, error]
}
