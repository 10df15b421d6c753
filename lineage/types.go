// Package lineage is the picture of which process created which: a graph of processes
// keyed by identity, with creators that never change and parents that may.
//
// It is pure: no system calls, no clock, no goroutine, no import of this module. Events
// and snapshots go in, answers come out; the caller owns the graph from one goroutine.
// The kernel holds the truth: a lost, repeated or late event costs a line of history
// and is repaired by Resync. It never changes which session a process belongs to.
package lineage

import "fmt"

// ID permanently names a process (a thread group): the thread group id in the initial
// PID namespace and the group leader's start_boottime in nanoseconds. A PID alone is
// reused; the pair is not. The zero value is "no process".
type ID struct {
	PID   uint32
	Start uint64
}

func (id ID) String() string { return fmt.Sprintf("%d@%d", id.PID, id.Start) }

// IsZero reports whether id names no process.
func (id ID) IsZero() bool { return id == ID{} }

// SessionID is the kernel's name of a session: a slot number in the low 32 bits, 30
// random bits above. The zero value is "no session".
type SessionID uint64

// Crockford's base32, lower case: no i, l, o, u.
const base32 = "0123456789abcdefghjkmnpqrstvwxyz"

// String is the id that people see: the 30 random bits in 6 characters.
func (id SessionID) String() string {
	var s [6]byte
	n := uint64(id) >> 32
	for i := len(s) - 1; i >= 0; i-- {
		s[i] = base32[n&31]
		n >>= 5
	}
	return string(s[:])
}

type EventType uint8

// The event types that change the graph.
const (
	Birth EventType = iota + 1
	Exec
	Exit
	Reparent
	Reaped
	Claimed
	Stop
	Continue
)

// Evidence is why a process is a member of its session.
type Evidence uint8

// The kinds of evidence.
const (
	NoEvidence Evidence = iota
	Root
	Fork
	Adopted
	Reconciled
)

func (e Evidence) String() string {
	return [...]string{"", "root", "fork", "adopted", "reconciled"}[min(e, Reconciled)]
}

// Comm is the kernel's name of a process: at most 15 bytes, NUL padded, any bytes. Hostile:
// escape it before showing it.
type Comm [16]byte

// CommOf is a name as the kernel keeps it.
func CommOf(name string) (c Comm) {
	copy(c[:len(c)-1], name)
	return c
}

func (c Comm) String() string { return string(untilNUL(c[:])) }

// MarshalText makes a name text in JSON.
func (c Comm) MarshalText() ([]byte, error) { return untilNUL(c[:]), nil }

func (c *Comm) UnmarshalText(name []byte) error {
	*c = CommOf(string(name))
	return nil
}

// Looks is what each report of a living process tells of it; the latest counts.
type Looks struct {
	Comm   Comm   `json:",omitzero"`
	UID    uint32 `json:",omitzero"` // effective, in the initial user namespace
	Cgroup uint64 `json:",omitzero"` // version 2 id
}

// Event is one change. Which fields count for Apply depends on Type; Complete adds the others. Argv
// and Exe are copied if they are kept.
type Event struct {
	Type     EventType
	Time     uint64 // boottime, ns
	ID       ID
	Session  SessionID
	Evidence Evidence // Birth
	Source   uint8    // Birth: what the evidence is based on; the graph only stores it
	Creator  ID       // Birth
	Parent   ID       // Birth, Reparent (the new one)
	From     ID       // Reparent
	Looks             // Birth, Exec

	Exe           []byte // Exec
	Argv          []byte // Exec: arguments, each ended by NUL
	ArgvTruncated bool

	Status  uint32 // Exit: as wait(2) gives it
	Flags   uint32 // Exit: opaque to the graph, returned by Node
	CPUTime uint64 // Exit: ns
	MaxRSS  uint64 // Exit: bytes

	Signal *Signal // Exit: that ended it; Stop, Continue; nil: none, or not known

	Claim *Claim // Birth, Claimed; nil: no claim of its own, only its creator's

	After // by Complete; Was and Before by Apply
}

// After is what the kernel does not say with an event: the process as it is after it.
type After struct {
	Image       *Image // what it runs, or ran last; nil: not known
	Container   *Container
	Exited      uint64 // boottime of its end, 0: it lives
	StatusKnown bool   // its Exit was reported: status, flags, CPU time and memory are known
	Met         bool   // user and cgroup are known

	Was    *Image // Exec: what it ran before; nil: not known
	WasUID uint32 // Exec: the user that it was before
	Before uint64 // Exec: since when it ran that by an exec of its own; 0: since its fork
}

// Seen is one live or unreaped process of a snapshot.
type Seen struct {
	ID       ID
	Session  SessionID
	Since    uint64 // when it was entered
	Evidence Evidence
	Source   uint8
	Creator  ID
	Parent   ID
	Looks
	CPUTime uint64
	RSS     uint64
	Dead    bool
	Zombie  bool
	Stopped bool
}
