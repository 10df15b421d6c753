// Package api is the contract between the daemon and everything that talks to
// it: the documents of HTTP over the unix socket, and a client for them.
//
// Within /v1 fields are only added. Clients ignore fields that they do not
// know; servers refuse them in requests.
package api

import (
	"cmp"
	"fmt"
	"strconv"
	"time"
)

// Schema is in every document; Major is in every reply's Lineage-Api header.
const (
	Schema = "lineage/1"
	Major  = 1
)

// U64 is a number that JSON readers would round: boottime nanoseconds and
// sequence numbers. On the wire it is a decimal string.
type U64 uint64

// MarshalJSON writes a decimal string.
func (u U64) MarshalJSON() ([]byte, error) {
	return append(strconv.AppendUint([]byte{'"'}, uint64(u), 10), '"'), nil
}

// UnmarshalJSON reads a decimal string.
func (u *U64) UnmarshalJSON(b []byte) error {
	s, err := strconv.Unquote(string(b)) // there are several in each event: json.Unmarshal costs more
	if err != nil {
		return fmt.Errorf("want a decimal string: %w", err)
	}
	v, err := strconv.ParseUint(s, 10, 64)
	*u = U64(v)
	return err
}

// Head opens every document.
type Head struct {
	Schema string `json:"schema,omitempty"` // lineage/1; only at the top of a document
	Kind   string `json:"kind,omitempty"`   // what the document is: session, report, why …
}

// NewHead opens a document of that kind.
func NewHead(kind string) Head { return Head{Schema: Schema, Kind: kind} }

// Ref names a process: pid in the initial PID namespace, start in boottime ns.
type Ref struct {
	PID     int `json:"pid"`                // in the initial PID namespace
	StartNS U64 `json:"start_ns,omitempty"` // start of the process, in ns of boottime; identifies it together with the PID
}

func (r Ref) String() string {
	if r.StartNS == 0 {
		return strconv.Itoa(r.PID)
	}
	return fmt.Sprintf("%d@%d", r.PID, r.StartNS)
}

// Compare orders processes by their starts.
func (r Ref) Compare(other Ref) int {
	return cmp.Or(cmp.Compare(r.StartNS, other.StartNS), cmp.Compare(r.PID, other.PID))
}

// Session is an agent session.
type Session struct {
	Head
	ID            string       `json:"id"`                       // six letters and digits
	Name          string       `json:"name,omitempty"`           // given by its creator
	UID           int          `json:"uid"`                      // of its creator
	State         SessionState `json:"state"`                    // active, ending, condemned, ended
	Root          *Process     `json:"root,omitempty"`           // the process that it was opened for
	Owner         *Ref         `json:"owner,omitempty"`          // the process that asked for it; its exit ends the session
	Live          int          `json:"live"`                     // members that are alive
	Peak          int          `json:"peak,omitempty"`           // most members at one time
	Forks         int          `json:"forks,omitempty"`          // by members, so far
	Joined        int          `json:"joined,omitempty"`         // other members than the root that ran when they were entered: adopted, moved from another session, or started by a broker
	Orphans       int          `json:"orphans"`                  // live members whose creator is dead
	Leftovers     int          `json:"leftovers"`                // live members while the root is gone
	Zombies       int          `json:"zombies"`                  // dead members that their parent has not waited for
	CPUSeconds    float64      `json:"cpu_seconds"`              // user and system time of all members, dead ones included; without nested sessions
	CPUs          float64      `json:"cpus,omitempty"`           // that the live members used between the daemon's last two samples, at most 8 s apart, nested sessions included; 1.5 is one and a half
	IdleSeconds   float64      `json:"idle_seconds,omitempty"`   // of an active one: for how long, as of the last check, no process started, CPU time was under the policy's idle_cpu, no tool call was open or reported, and no client was seen at a port, nested sessions included; absent: it is not idle, or the daemon does not know
	LastEvent     *time.Time   `json:"last_event,omitempty"`     // time of the last event of a member; absent: none since the daemon started
	RSSBytes      uint64       `json:"rss_bytes"`                // of the live members, those of nested sessions included, as max_rss_bytes counts; shared memory counts in each
	Ports         []int        `json:"ports,omitempty"`          // that members listen on
	Started       *time.Time   `json:"started,omitempty"`        // when it was opened
	Ended         *time.Time   `json:"ended,omitempty"`          // when its last member was gone
	EndReason     string       `json:"end_reason,omitempty"`     // why it ends or ended: root_exit, owner_exit, end, max_lifetime, max_processes, max_rss, idle, ancestor, expired, released, halt, reboot, untracked
	Verdict       Verdict      `json:"verdict,omitempty"`        // of its receipt, when it has ended: clean, left, unknown
	GraceSeconds  float64      `json:"grace_seconds"`            // from SIGTERM to SIGKILL
	Deadline      *time.Time   `json:"deadline,omitempty"`       // when members get SIGKILL
	Paused        *time.Time   `json:"paused,omitempty"`         // since when its members are stopped, by a pause of it or of a session around it
	Continued     *Continued   `json:"continued,omitempty"`      // of a paused one, nested sessions included: another process continues members
	Parent        string       `json:"parent,omitempty"`         // the session that it is nested in
	Level         int          `json:"level"`                    // guarantee level at which it is ended
	Mode          string       `json:"mode"`                     // observe, enforce
	Signals       SignalFate   `json:"signals,omitempty"`        // what happens to signals that kill or stop, from its members to processes outside: recorded, refused; absent: nothing
	Evidence      string       `json:"evidence,omitempty"`       // of its root: root, adopted
	Rule          string       `json:"rule,omitempty"`           // of the policy, that it is due to
	ContainerRule string       `json:"container_rule,omitempty"` // the containers rule of the policy that opened it
	Kept          bool         `json:"kept,omitempty"`           // handed over from another session
	Until         *time.Time   `json:"until,omitempty"`          // of a kept one
	Reason        string       `json:"reason,omitempty"`         // of a kept one
	KeptBy        *Caller      `json:"kept_by,omitempty"`        // the caller that asked to keep it; absent: a rule, or not known
	KeepRule      string       `json:"keep_rule,omitempty"`      // of the policy, by which it is kept
	DelegatedBy   string       `json:"delegated_by,omitempty"`   // the session whose work it holds, on evidence
	Container     *Container   `json:"container,omitempty"`      // that its root runs in
	Shared        string       `json:"shared,omitempty"`         // the rule for a server of several sessions
	Limits        *Limits      `json:"limits,omitempty"`         // what the kernel holds its members to
	Account       *Account     `json:"account,omitempty"`        // what its members used, by their cgroup; absent: it has none of its own
	Delegated     []Delegated  `json:"delegated,omitempty"`      // what members handed to other daemons
	Replaced      []string     `json:"replaced,omitempty"`       // only in the reply to its creator: the sessions that were ended for its name
	Warnings      []string     `json:"warnings,omitempty"`       // only in the reply to the request that caused them
	Degraded      []string     `json:"degraded,omitempty"`       // what does not work as it should for this session
	Token         string       `json:"token,omitempty"`          // only in the reply to its creator
}

// Continued are members of a paused session that another process continues with SIGCONT.
type Continued struct {
	Running int     `json:"running"`      // members that ran in the last second
	By      *Sender `json:"by,omitempty"` // who continued one last, if that is known
}

// In reports whether a session is in one of [SelectionStates].
func (s *Session) In(state string) bool {
	switch state {
	case "kept":
		return s.Kept
	case "leftover":
		return s.IsLeftover()
	case "paused":
		return s.IsPaused()
	}
	return string(s.State) == state
}

// IsLeftover reports whether a session has lost its root, and nothing ends it.
func (s *Session) IsLeftover() bool { return s.State == StateActive && s.Leftovers > 0 }

// IsPaused reports whether it is active, and its members are stopped by a pause.
func (s *Session) IsPaused() bool { return s.State == StateActive && s.Paused != nil }

// Evidence is why a process belongs to its session.
type Evidence struct {
	Kind       string `json:"kind"`             // root, fork, adopted, reconciled
	Source     string `json:"source,omitempty"` // what it rests on: parent, rule, request, env, unit, container, socket, cookie, sid, pgrp, cgroup, join, iterator
	Confidence string `json:"confidence"`       // strong, weak
}

// Process is a process, alive or remembered.
type Process struct {
	Head
	Ref
	PidfdInode    uint64       `json:"pidfd_inode,omitempty"`    // of a live one: PID:INODE names no other until the next boot, for kill of util-linux 2.42; absent before kernel 6.9
	NSPID         int          `json:"ns_pid,omitempty"`         // in its own PID namespace, if that is another one
	Session       string       `json:"session,omitempty"`        // the session that it belongs to
	Creator       *Ref         `json:"creator,omitempty"`        // the process that forked it
	Parent        *Ref         `json:"parent,omitempty"`         // the kernel's parent now
	Comm          string       `json:"comm,omitempty"`           // the kernel's name, at most 15 bytes
	Exe           string       `json:"exe,omitempty"`            // path of the program
	Argv          []string     `json:"argv,omitempty"`           // arguments, for its own user and root; redacted for the group lineage; others get the name only
	ArgvTruncated bool         `json:"argv_truncated,omitempty"` // it is longer
	FirstArgv     []string     `json:"first_argv,omitempty"`     // of a session's root: the arguments that it began the session with, if it has run another program since; for those who get argv
	UID           *int         `json:"uid,omitempty"`            // effective user
	Cgroup        string       `json:"cgroup,omitempty"`         // path in the version 2 hierarchy
	Container     *Container   `json:"container,omitempty"`      // that it runs in
	Cwd           string       `json:"cwd,omitempty"`            // of the caller's own, and for root
	State         ProcessState `json:"state,omitempty"`          // live, exited, zombie
	Task          string       `json:"task,omitempty"`           // the kernel's state letter: R S D T Z …
	Started       *time.Time   `json:"started,omitempty"`        // when it was forked
	Exited        *time.Time   `json:"exited,omitempty"`         // when its last thread exited
	ExitCode      *int         `json:"exit_code,omitempty"`      // absent: alive, or it died of a signal
	Signal        string       `json:"signal,omitempty"`         // that it died of: SIGTERM
	Killer        *Sender      `json:"killer,omitempty"`         // who sent the signal that it died of, or that it handled before it exited; absent: none, or not known
	Stopped       *Sender      `json:"stopped,omitempty"`        // who sent the signal that stopped it; absent: it runs, or not known
	Evidence      *Evidence    `json:"evidence,omitempty"`       // why it belongs to its session
	Orphan        bool         `json:"orphan,omitempty"`         // its creator is dead
	CPUSeconds    float64      `json:"cpu_seconds,omitempty"`    // user and system time
	Busy          *time.Time   `json:"busy,omitempty"`           // in a tree, of a live one: since then it used less than 1 s of CPU
	RSSBytes      uint64       `json:"rss_bytes,omitempty"`      // resident memory
	Trace         *Trace       `json:"trace,omitempty"`          // claimed: where it is in a distributed trace; its own, or inherited from its creator
	Calls         []Call       `json:"calls,omitempty"`          // claimed: the tool calls that were open when it, or the first of its ancestors that has any, was started. Of several it belongs to one, and which is unknown
}

// Node is a process with its children in start order.
type Node struct {
	Process
	Children []Ref `json:"children,omitempty"` // in the order of their starts
}

// Tree is the processes of a session, dead ancestors included. Roots are the
// nodes that no other node of the tree created.
type Tree struct {
	Head
	Session *Session `json:"session,omitempty"` // whose processes these are
	Roots   []Ref    `json:"roots"`             // nodes that no other node created
	Nodes   []Node   `json:"nodes"`             // every process, parents and children apart
}

// Sessions is a list of sessions.
type Sessions struct {
	Head
	Items   []Session `json:"items"`             // the sessions
	Halt    *Halt     `json:"halt,omitempty"`    // that is in force
	Next    string    `json:"next,omitempty"`    // for the next page; absent: this is the last
	Receipt *Receipt  `json:"receipt,omitempty"` // the first one after a place
}

// Receipt is what became of a session or of a command. One of the two is there.
type Receipt struct {
	ID      string        `json:"id"`                // unique on the host
	Report  *Report       `json:"report,omitempty"`  // of a session
	Command *CommandReply `json:"command,omitempty"` // of a command, signed by the host
}

// Version is GET /v1/version.
type Version struct {
	Head
	Version   string     `json:"version"`           // of the daemon
	API       int        `json:"api"`               // major version of the API
	ABI       string     `json:"abi"`               // hash of the BPF programs and maps
	PID       int        `json:"pid"`               // of the daemon
	Ephemeral bool       `json:"ephemeral"`         // it exits after the last session and client
	Level     int        `json:"level"`             // guarantee level, 1 to 4
	Mode      string     `json:"mode"`              // observe, enforce
	Started   *time.Time `json:"started,omitempty"` // when the daemon started
}

// Status is GET /v1/status.
type Status struct {
	Head
	Level   int      `json:"level"`             // guarantee level, 1 to 4
	Missing []string `json:"missing,omitempty"` // what the next level lacks
	Mode    string   `json:"mode"`              // observe, enforce; observe for users whose breaker is open
	// Limits are optional programs that the kernel refused. What the level
	// promises holds without them.
	Limits   []string `json:"limits,omitempty"`
	Degraded []string `json:"degraded,omitempty"` // what does not work as it should
	History  []string `json:"history,omitempty"`  // of this: why the history is not complete
	// RefusesForks is what refuses condemned members their forks: lsm, fmod_ret
	// or none. It makes an end shorter, and proves nothing.
	RefusesForks string `json:"refuses_forks"`
	// RefusesSignals is what can refuse members of guarded sessions their signals to others: lsm, fmod_ret
	// or none.
	RefusesSignals string `json:"refuses_signals,omitempty"`
	SelfProtect    bool   `json:"self_protect"` // members may not act against the daemon
	// Capabilities are those that the daemon has, as capabilities(7) names them.
	Capabilities []string          `json:"capabilities,omitempty"`
	Counters     map[string]uint64 `json:"counters,omitempty"` // of the kernel side, for root and the group lineage
	Lost         uint64            `json:"lost"`               // events, since the daemon started
	Breaker      Breaker           `json:"breaker"`            // the circuit breaker
	Halt         *Halt             `json:"halt,omitempty"`     // that is in force
	// SelfCheck is absent while none was made yet.
	SelfCheck *SelfCheck `json:"self_check,omitempty"`
	Sessions  int        `json:"sessions"`             // live ones
	Live      int        `json:"live"`                 // members of all sessions
	AuditHead string     `json:"audit_head,omitempty"` // number and hash of the newest record of the audit log on the disk
}

// NewSession asks for a session over the caller's own child, blocked before
// its exec. StartNS of the root may be absent: its parent holds the PID.
type NewSession struct {
	Root Ref    `json:"root"`           // the process that becomes the root
	Name string `json:"name,omitempty"` // of the session
	// Adopt makes a session of a process that has been running for some time,
	// with its descendants. It has no owner.
	Adopt         bool   `json:"adopt,omitempty"`
	GraceMS       *int64 `json:"grace_ms,omitempty"`        // absent: the policy's defaults.grace
	OnRootExit    string `json:"on_root_exit,omitempty"`    // end (default), report, owner: it ends it, or its exit does
	Spare         string `json:"spare,omitempty"`           // root: no other member may kill or stop the root, or the agent that its marks name
	MaxProcesses  int    `json:"max_processes,omitempty"`   // end it above this many, zombies counted; 0: no limit
	MaxLifetimeMS int64  `json:"max_lifetime_ms,omitempty"` // end it after this long; 0: no limit
	MaxRSSBytes   int64  `json:"max_rss_bytes,omitempty"`   // end it above this much memory; 0: no limit
	IdleMS        int64  `json:"idle_ms,omitempty"`         // end it after this long without a new process and under 1 s of CPU; 0: no limit
	TimeoutMS     int64  `json:"timeout_ms,omitempty"`      // its owner ends the root after this long: then the reason of its exit is max_lifetime; 0: it does not
	// Exclusive is what happens if a session of the caller has the name, or has had it and is not proven to be empty, or
	// work of such a session continues: fail, wait or replace. Absent: only live sessions count, and it fails.
	Exclusive string `json:"exclusive,omitempty"`
	// Limits are what the kernel holds the members to. Absent: nothing. The session is not opened if the host cannot.
	Limits *Limits `json:"limits,omitempty"`
}

// Values of [NewSession.Exclusive].
const (
	ExclusiveFail    = "fail"
	ExclusiveWait    = "wait"    // in order of arrival
	ExclusiveReplace = "replace" // end it first
)

// Exclusive are all of them.
var Exclusive = []string{ExclusiveFail, ExclusiveWait, ExclusiveReplace}

// KeepRequest hands processes over to a kept session that outlives theirs.
type KeepRequest struct {
	Refs   []Ref     `json:"refs"`           // with start_ns
	Name   string    `json:"name,omitempty"` // of the kept session; absent: the comm of the first process, numbered if it is in use
	Reason string    `json:"reason"`         // for people who find it later
	Until  time.Time `json:"until"`          // when the kept session ends
}

// Event is one line of an event stream.
type Event struct {
	Head
	Seq      U64          `json:"seq,omitempty"`       // grows by one; begins again with each boot
	TimeNS   U64          `json:"time_ns,omitempty"`   // boottime
	Time     *time.Time   `json:"time,omitempty"`      // wall time
	Type     EventType    `json:"type,omitempty"`      // fork, exec, exit, reparent, reaped, session, listen, unlisten, lost, trace, mark, stop, continue, crossing, moved
	Process  *Process     `json:"process,omitempty"`   // that it happened to, as it is after the event, without what only a question has: ns_pid, cgroup, cwd, task, first_argv, orphan; use of a live one. mark: the agent; trace: the process whose TRACEPARENT was read
	Was      *Process     `json:"was,omitempty"`       // exec: with the program and the user that it had before; absent: not known
	Session  string       `json:"session,omitempty"`   // id of the session
	Subject  *Session     `json:"subject,omitempty"`   // session: it, as it is after the event
	State    SessionState `json:"state,omitempty"`     // session
	Reason   string       `json:"reason,omitempty"`    // session; of the stream's end
	From     *Ref         `json:"from,omitempty"`      // reparent
	To       *Ref         `json:"to,omitempty"`        // reparent
	Port     *Port        `json:"port,omitempty"`      // listen, unlisten: a TCP port; 0 if the kernel chose it too late to tell
	Call     *Call        `json:"call,omitempty"`      // mark: the tool call; it has begun, or with ended is over
	Sent     *Sender      `json:"sent,omitempty"`      // stop, continue: the signal, and who sent it
	Crossing *Crossing    `json:"crossing,omitempty"`  // crossing: the signal, and who it was sent to
	Moved    *Moved       `json:"moved,omitempty"`     // moved: where to, and who did it
	LostFrom U64          `json:"lost_from,omitempty"` // lost: the first missing sequence number
	LostTo   U64          `json:"lost_to,omitempty"`   // lost: the last missing sequence number
	Count    uint64       `json:"count,omitempty"`     // lost
	Where    string       `json:"where,omitempty"`     // lost: ring, reader, restart
	// Of a loss in the ring, and of a restart: events between these boottimes are
	// missing. SinceNS may be unknown. Of an exec since is when the program before was
	// executed; absent: it was forked with that.
	SinceNS U64 `json:"since_ns,omitempty"`
	UntilNS U64 `json:"until_ns,omitempty"` // the end of the gap, in boottime

	// Of the first line of a stream with a snapshot.
	BootID  string     `json:"boot_id,omitempty"`
	Version string     `json:"version,omitempty"` // of the daemon
	Started *time.Time `json:"started,omitempty"` // when the daemon started
}

// DaemonStatus is what `lineage status -o json` prints; no route gives it.
type DaemonStatus struct {
	Head
	Daemon *Version `json:"daemon"` // GET /v1/version
	Status *Status  `json:"status"` // GET /v1/status
}

// Past is a session that has ended and its processes. `lineage history SESSION -o
// json` makes it; no route gives it.
type Past struct {
	Head
	Session *Session `json:"session"` // as it ended
	Report  *Report  `json:"report"`  // its receipt
	Roots   []Ref    `json:"roots"`   // where the tree begins
	// Nodes are what was left over and its ancestors; with --all every process that the
	// history has.
	Nodes []Node `json:"nodes"`
}

// Doctor is what this host's kernel can do for lineage.
type Doctor struct {
	Head
	Supported bool         `json:"supported"`         // sessions can be tracked here, now, by this caller
	Kernel    string       `json:"kernel"`            // its release
	Level     int          `json:"level"`             // guarantee level, 1 to 4; 0: not supported
	Missing   []string     `json:"missing,omitempty"` // what the next level lacks
	Items     []DoctorItem `json:"items"`             // each feature that was tried
	// SelfCheck is the daemon's last one, absent if none answers.
	SelfCheck *SelfCheck `json:"self_check,omitempty"`
	// Capabilities are the daemon's, absent if none answers.
	Capabilities []string `json:"capabilities,omitempty"`
	// Degraded is what does not work in the daemon as it should.
	Degraded []string `json:"degraded,omitempty"`
	// Halt is in force on this host, as the daemon says, or the pins if none answers.
	Halt *Halt `json:"halt,omitempty"`
}

// DoctorItem is one thing that lineage needs or can use.
type DoctorItem struct {
	Feature  string `json:"feature"`       // its name
	OK       bool   `json:"ok"`            // the kernel has it
	Required bool   `json:"required"`      // sessions cannot be tracked without it
	Why      string `json:"why,omitempty"` // what was found
	Do       string `json:"do,omitempty"`  // what to do about it
}
