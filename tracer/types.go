package tracer

import (
	"net/netip"
	"time"

	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// The names of processes and sessions, and the kinds of evidence, are the graph's. The
// tracer uses nothing else of it.
type (
	Identity  = lineage.ID
	SessionID = lineage.SessionID
	Signal    = lineage.Signal
	Sender    = lineage.Sender
	Evidence  = lineage.Evidence
	Comm      = lineage.Comm
	Looks     = lineage.Looks
)

// State is the state of a session. States only grow.
type State uint32

// The states of a session, in the only order in which they are reached.
const (
	StateFree      State = iota // the slot holds no session
	StateActive                 // members run freely
	StateEnding                 // SIGTERM and SIGCONT are sent, the deadline runs
	StateCondemned              // members are killed, new ones die before they run
	StateEmpty                  // live and dying are 0; the record may be closed
	// StateDissolved follows StateActive: the members were released, and the session has no
	// effect any more. Its record stays until what is nested in it is gone.
	StateDissolved
)

func (s State) String() string {
	return [...]string{"free", "active", "ending", "condemned", "ended", "dissolved"}[min(s, StateDissolved)]
}

func (s State) Kills() bool { return s == StateCondemned || s == StateEmpty }

// Cause is why a session ends. The first cause wins.
type Cause uint32

// The causes of an end.
const (
	CauseNone Cause = iota
	CauseRootExit
	CauseOwnerExit
	CauseEnd
	CauseMaxLifetime
	CauseMaxProcesses
	CauseMaxRSS
	CauseIdle
	CauseAncestor // the session that it is nested in ends
	CauseExpired
	CauseReleased // its members were released
	CauseHalt
)

func (c Cause) String() string {
	return [...]string{"", "root_exit", "owner_exit", "end", "max_lifetime", "max_processes",
		"max_rss", "idle", "ancestor", "expired", "released", "halt"}[min(c, CauseHalt)]
}

func (c Cause) Asked() bool { return c == CauseEnd || c == CauseHalt }

// HaltMode is which agents must not start: those whose [Agent] is Exact.
type HaltMode uint32

// The modes, enum halt_mode of bpf/lineage.h.
const (
	HaltNone  HaltMode = iota
	HaltDrain          // one that is in no session dies at its exec
	HaltAll            // every one does
)

func (m HaltMode) String() string { return [...]string{"", "drain", "halt"}[min(m, HaltAll)] }

// Halt is in force until it is replaced, as long as the pins are there: also without a
// process that has the tracer open, and across a take-over.
type Halt struct {
	Mode   HaltMode
	Since  uint64 // boottime, ns
	UID    uint32 // of the user that asked for it
	Reason string
}

// Bars reports whether a new session, or an agent, is refused; inside: in a session.
func (h Halt) Bars(inside bool) bool { return h.Mode == HaltAll || h.Mode == HaltDrain && !inside }

// What sends a [Signal].
const (
	ByProcess = lineage.ByProcess
	ByKernel  = lineage.ByKernel
	ByFault   = lineage.ByFault
)

// The kinds of evidence, by which a process is a member of its session.
const (
	EvidenceNone       = lineage.NoEvidence
	EvidenceRoot       = lineage.Root
	EvidenceFork       = lineage.Fork
	EvidenceAdopted    = lineage.Adopted
	EvidenceReconciled = lineage.Reconciled // found by the kernel's own reconcile pass after a missed birth
)

// Source is what the evidence of an adopted process, or of a root, is based on.
type Source uint8

// The sources of evidence.
const (
	SourceNone      Source = iota // the kernel's own hook saw it
	SourceParent                  // its parent was a member when it was adopted
	SourceRule                    // an agent rule named it at its exec
	SourceRequest                 // a request named it
	SourceEnv                     // LINEAGE_TOKEN in its environment
	SourceUnit                    // a unit that a member asked for
	SourceContainer               // a container that a member asked for
	SourceSocket                  // a broker forked it after a member had connected
	SourceCookie                  // a variable that other tools mark their processes with
	SourceSID                     // the POSIX session of a member
	SourcePGRP                    // the process group of a member
	SourceCgroup                  // the cgroup of a member
	SourceJoin                    // it was put into a container from outside
)

func (s Source) String() string {
	return [...]string{"", "parent", "rule", "request", "env", "unit", "container",
		"socket", "cookie", "sid", "pgrp", "cgroup", "join"}[min(s, SourceJoin)]
}

// Strong reports whether the source is a proof: only a member, or a process that a
// member asked, can have caused it.
func (s Source) Strong() bool { return s <= SourceContainer || s == SourceJoin }

func evidence(v uint32) (Evidence, Source) { return Evidence(v & 0xff), Source(v >> 8) }

type EntryFlags uint32

// The flags of an entry that user space reads.
const (
	FlagProtected = EntryFlags(bpf.LineageEntryFlagsFLAG_PROTECTED) // no pass signals it
	FlagOwner     = EntryFlags(bpf.LineageEntryFlagsFLAG_OWNER)
	FlagRoot      = EntryFlags(bpf.LineageEntryFlagsFLAG_ROOT)
	FlagSpared    = EntryFlags(bpf.LineageEntryFlagsFLAG_SPARED) // [Tracer.SetCall] named it as an agent
	FlagTermed    = EntryFlags(bpf.LineageEntryFlagsFLAG_TERMED) // a pass sent SIGTERM
	FlagKilled    = EntryFlags(bpf.LineageEntryFlagsFLAG_KILLED) // a pass, or its birth, sent SIGKILL
	FlagDaemon    = EntryFlags(bpf.LineageEntryFlagsFLAG_DAEMON) // protected by [Tracer.SelfProtect]
	FlagStopped   = EntryFlags(bpf.LineageEntryFlagsFLAG_STOPPED)
	FlagResumed   = EntryFlags(bpf.LineageEntryFlagsFLAG_RESUMED)
)

type EventType uint16

// The event types.
const (
	EventBirth    EventType = iota + 1 // a process was entered: as root, by fork, adopted or reconciled
	EventExec                          // a member execed a program
	EventExit                          // the last thread of a member exited
	EventReparent                      // a member got another parent
	EventReaped                        // a dead member was waited for, its PID is free
	EventSession                       // a session changed its state
	EventLost                          // Count events of all CPUs were lost before this one
	EventListen                        // a member listens on a TCP socket
	EventUnlisten                      // a TCP socket that a member listened on was closed, by any process
	// The following two are the daemon's. They are numbered here because the history stores the
	// numbers.
	EventMark  // a tool call of an agent, Process, began, or ended if Since is earlier than Time
	EventTrace // a member's Claim was read

	EventStop     // the kernel's again: a member was sent a signal that stops it
	EventContinue // a stopped member, or one of a paused session, was sent SIGCONT
	EventCrossing // a signal of a member left its guarded session, or would have
	EventMoved    // a member of a session with a cgroup came into another cgroup
)

// Event is one decoded record of the ring buffer. Which fields are set depends on Type.
// Filename, Argv and Traceparent alias the reader's buffer and are valid until the next read.
type Event struct {
	Type     EventType
	CPU      uint16
	Seq      uint64 // per CPU, gap-free unless events were lost
	Time     uint64 // boottime, ns
	Process  Identity
	Session  SessionID
	Flags    EntryFlags
	Evidence Evidence // Birth
	Source   Source   // Birth

	Creator       Identity // Birth
	Parent        Identity // Birth: real_parent; Reparent: the new parent
	From          Identity // Reparent: the parent that died
	lineage.Looks          // Birth, Exec; Exit: of [Tracer.Deaths]

	Filename      []byte // Exec
	Argv          []byte // Exec: arguments, each ended by NUL
	ArgvTruncated bool   // Exec
	Traceparent   []byte // Exec: at most 63 bytes of it; empty: see [Tracer.SetTraces], not found, or beyond 256 variables

	ExitStatus uint32 // Exit: as wait(2) gives it
	CPUTime    uint64 // Exit: ns, all threads
	MaxRSS     uint64 // Exit: bytes
	// Signal is, for Exit, the one that the process died of, or handled before it exited; nil: none,
	// or one of ours, or the sender is not known. Stop, Continue: that it was sent.
	Signal   *Signal
	Crossing *Crossing // Crossing
	Moved    *Moved    // Moved

	State State // Session
	Cause Cause // Session

	// Socket distinguishes the sockets that are open at one time. It is the kernel's address
	// of the socket and must not be shown.
	Socket  uint64         // Listen, Unlisten
	Address netip.AddrPort // Listen, Unlisten; port 0: the kernel chose it when the process began to listen

	Count uint64 // Lost; 0: unknown
	// Since is, in boottime ns: for Lost when the last event before the loss happened, 0: unknown;
	// for Listen and Unlisten when the process began to listen; for Mark when the call began.
	Since uint64

	// Claim is what members claim about Process. The kernel knows nothing of it.
	Claim *lineage.Claim
	Call  *lineage.Call // Mark
	Used  *lineage.Used // Mark: of an ended call, then; nil: nothing is known
	// After is what user space knows: with it, and with the fields of other types, an event that
	// readers get has its process as it is after the event. Filename and Argv are in its Image.
	lineage.After
}

func (e *Event) Args() []string { return procfs.SplitArgv(e.Argv) }

// Process is one thread group as the task iterator saw it. For a dead member its
// Session is known; Since, Creator, Evidence and Flags were removed with its entry.
type Process struct {
	Identity
	Session  SessionID // 0: not a member
	Since    uint64    // boottime ns at which it was entered
	Creator  Identity
	Evidence Evidence
	Source   Source
	Flags    EntryFlags

	Parent Identity // real_parent now
	PGID   uint32
	SID    uint32 // POSIX session
	lineage.Looks
	Threads uint32
	NSPID   uint32 // in its own PID namespace
	Dead    bool   // no live thread
	Zombie  bool   // Dead, torn down, not yet reaped
	Kernel  bool   // a kernel thread
	Killed  bool   // SIGKILL is pending, or it called exit_group
	Stopped bool   // by a signal
	Stops   bool   // Stopped, or about to be
	CPUTime uint64 // ns, live and dead threads
	RSS     uint64 // bytes
	Exec    uint64 // another one after each exec of the process; 0: none since its birth
}

// Entry is what the kernel stores about one entered process. It decides membership.
type Entry struct {
	Identity
	Session  SessionID // 0: entered only as owner or protected
	Since    uint64
	Creator  Identity
	Call     uint32 // the tool call that it works for, see [Tracer.SetCall]
	Evidence Evidence
	Source   Source
	Flags    EntryFlags
}

type SessionSpec struct {
	// Root must be alive. Start 0 means "the process that has that PID now" and is for
	// callers that hold the PID against reuse (their own unreaped child). If Root is a
	// member already, the new session is nested in its session.
	Root  Identity
	Owner Identity // its death ends the session; zero: none
	Name  string   // up to 64 bytes
	UID   uint32
	Grace time.Duration
	// MaxProcesses bounds live and unreaped members; 0: no limit.
	MaxProcesses uint32
	// MaxLifetime ends the session at the host's first fork, exec or exit
	// after it, time that the host was suspended included; 0: no limit.
	MaxLifetime time.Duration
	// MaxRSS (bytes) and Idle are stored with the session; user space checks them.
	MaxRSS uint64
	Idle   time.Duration
	// KeepOnRootExit leaves the session active when its root exits.
	KeepOnRootExit bool
	Protection     Protection
	// Rule identifies the rule that asks for the session, 0 if none.
	Rule uint32
	// Adopted means that Root has been running for some time: its descendants are
	// entered by Adopt, or by Follow if it is a member.
	Adopted bool
	// Source is the evidence on which Root was found; 0: a rule or a request named it.
	Source Source
	// KeptFrom, if not 0, hands Root, a member of that session, over to a session that
	// is nested nowhere: the end of the old session does not reach it. MaxLifetime then
	// limits it, KeepOnRootExit is implied.
	KeptFrom SessionID
	// For is the session whose work this companion session holds, 0: not a companion.
	// With it the session has no Name. Weak: on evidence that may be a coincidence.
	For  SessionID
	Weak bool
	// Requested: somebody asked for a new session. The daemon refuses that while a halt is in force.
	Requested bool
	// Taken, if not nil, reports whether an id could be confused with an existing one.
	Taken func(id SessionID) bool

	agent  bool      // opened as by the exec hook,
	inside SessionID // if the process is still in this one
}

// SessionInfo is what the kernel stores about a session.
type SessionInfo struct {
	ID       SessionID
	Parent   SessionID // the session around it, skipping dissolved ones; 0: none
	Root     Identity
	Owner    Identity
	Name     string
	UID      uint32
	State    State
	Cause    Cause
	Grace    time.Duration
	Created  uint64 // boottime, ns
	EndedAt  uint64 // boottime ns at which it left StateActive, 0 before
	Deadline uint64 // CLOCK_MONOTONIC ns, 0 if there is none
	Expires  uint64 // boottime ns at which max_lifetime is over, 0: never
	Paused   uint64 // boottime ns at which it was paused, 0: it is not

	MaxProcesses uint32
	MaxLifetime  time.Duration
	MaxRSS       uint64 // bytes
	Idle         time.Duration

	KeepOnRootExit bool  // as in [SessionSpec]
	Guard          Guard // likewise; of a companion GuardOff
	Spare          Spare

	Kept  bool // its root was handed over from another session
	Agent bool // an exec opened it
	// Joined: its root was put into a container from outside, as runc exec does, or is a container's main process. Its
	// evidence is [SourceJoin].
	Joined bool
	Rule   uint32 // 0: none known

	For  SessionID // the session whose work it holds, 0: not a companion
	Weak bool      // For is based on weak evidence

	Nested  uint32 // records of sessions that are nested directly in it
	Drifted bool   // its live count had to be corrected: a member was lost, unknown which
	// Unentered counts the children of members that there was no room for, and that were
	// not killed at birth.
	Unentered uint32

	Live     int64 // entered and not dead, nested sessions included
	Dying    int64 // dead for the exit hook, still being torn down
	Unreaped int64 // dead and not yet reaped
	Forks    uint64
	Peak     uint64
	Emptied  uint64 // boottime ns at which Live last fell to 0, 0: never
}

// PassResult is what a pass over the members did.
type PassResult struct {
	Visited uint32 // thread groups looked at
	Sent    uint32 // processes that were signalled
	Failed  uint32 // processes that could not be signalled now
	More    bool   // something is still due
}

// Moved is a member's arrival in a cgroup (version 2).
type Moved struct {
	Cgroup  uint64    // its id, the inode of its directory
	Path    string    // in the hierarchy, its first 255 bytes; "": not known
	Outside bool      // of its session's cgroup: user space finds out
	By      Identity  // who put it there; zero: not known
	Session SessionID // of By; 0: none
	UID     uint32    // of By, effective
	Comm    string    // of By, which chooses it: any bytes
}
