// Package api is the contract between the daemon and everything that talks to
// it: the documents of HTTP over the unix socket, and a client for them.
//
// Within /v1 fields are only added. Clients ignore fields that they do not
// know; servers refuse them in requests.
package api

import (
	"encoding/json"
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
	return strconv.AppendQuote(nil, strconv.FormatUint(uint64(u), 10)), nil
}

// UnmarshalJSON reads a decimal string.
func (u *U64) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("want a decimal string: %w", err)
	}
	v, err := strconv.ParseUint(s, 10, 64)
	*u = U64(v)
	return err
}

// Head opens every document.
type Head struct {
	Schema string `json:"schema,omitempty"`
	Kind   string `json:"kind,omitempty"`
}

// Ref names a process: pid in the initial PID namespace, start in boottime ns.
type Ref struct {
	PID     int `json:"pid"`
	StartNS U64 `json:"start_ns,omitempty"`
}

func (r Ref) String() string {
	if r.StartNS == 0 {
		return strconv.Itoa(r.PID)
	}
	return fmt.Sprintf("%d@%d", r.PID, r.StartNS)
}

// Session is an agent session.
type Session struct {
	Head
	ID           string       `json:"id"`
	Name         string       `json:"name,omitempty"`
	UID          int          `json:"uid"`
	State        SessionState `json:"state"`
	Root         *Process     `json:"root,omitempty"`
	Owner        *Ref         `json:"owner,omitempty"`
	Live         int          `json:"live"`
	Peak         int          `json:"peak,omitempty"`
	Forks        int          `json:"forks,omitempty"`
	Orphans      int          `json:"orphans"`
	Leftovers    int          `json:"leftovers"`
	Zombies      int          `json:"zombies"`
	CPUSeconds   float64      `json:"cpu_seconds"`
	RSSBytes     uint64       `json:"rss_bytes"`
	Ports        []int        `json:"ports,omitempty"`
	Started      *time.Time   `json:"started,omitempty"`
	Ended        *time.Time   `json:"ended,omitempty"`
	EndReason    string       `json:"end_reason,omitempty"`
	Verdict      Verdict      `json:"verdict,omitempty"` // of its receipt, when it has ended
	GraceSeconds float64      `json:"grace_seconds"`
	Deadline     *time.Time   `json:"deadline,omitempty"`
	Parent       string       `json:"parent,omitempty"` // the session that it is nested in
	Level        int          `json:"level"`
	Mode         string       `json:"mode"`
	Evidence     string       `json:"evidence,omitempty"`    // of its root: root, adopted
	Rule         string       `json:"rule,omitempty"`        // of the policy, that it is due to
	Kept         bool         `json:"kept,omitempty"`        // handed over from another session
	Until        *time.Time   `json:"until,omitempty"`       // of a kept one
	Reason       string       `json:"reason,omitempty"`      // of a kept one
	KeptBy       *Caller      `json:"kept_by,omitempty"`     // who asked for that; absent: a rule, or it is not known
	KeepRule     string       `json:"keep_rule,omitempty"`   // of the policy, by which it is kept
	BrokeredBy   string       `json:"brokered_by,omitempty"` // the session whose work it holds, on evidence
	Shared       string       `json:"shared,omitempty"`      // the rule for a server of several sessions
	Brokered     []Brokered   `json:"brokered,omitempty"`    // what members handed to other daemons
	Warnings     []string     `json:"warnings,omitempty"`    // only in the reply to who asked for it
	Degraded     []string     `json:"degraded,omitempty"`
	Token        string       `json:"token,omitempty"` // only in the reply to its creator
}

// Evidence is why a process belongs to its session.
type Evidence struct {
	Kind       string `json:"kind"` // root, fork, adopted, reconciled
	Source     string `json:"source,omitempty"`
	Confidence string `json:"confidence"` // strong, weak
}

// Process is a process, alive or remembered.
type Process struct {
	Head
	Ref
	NSPID         int          `json:"ns_pid,omitempty"`
	Session       string       `json:"session,omitempty"`
	Creator       *Ref         `json:"creator,omitempty"`
	Parent        *Ref         `json:"parent,omitempty"`
	Comm          string       `json:"comm,omitempty"`
	Exe           string       `json:"exe,omitempty"`
	Argv          []string     `json:"argv,omitempty"`
	ArgvTruncated bool         `json:"argv_truncated,omitempty"`
	UID           *int         `json:"uid,omitempty"`
	Cgroup        string       `json:"cgroup,omitempty"`
	Container     string       `json:"container,omitempty"` // its id, if the cgroup is one's
	Cwd           string       `json:"cwd,omitempty"`       // of the caller's own, and for root
	State         ProcessState `json:"state,omitempty"`
	Task          string       `json:"task,omitempty"` // the kernel's state letter: R S D T Z …
	Started       *time.Time   `json:"started,omitempty"`
	Exited        *time.Time   `json:"exited,omitempty"`
	ExitCode      *int         `json:"exit_code,omitempty"`
	Signal        string       `json:"signal,omitempty"` // that it died of: SIGTERM
	Evidence      *Evidence    `json:"evidence,omitempty"`
	Orphan        bool         `json:"orphan,omitempty"`
	CPUSeconds    float64      `json:"cpu_seconds,omitempty"`
	RSSBytes      uint64       `json:"rss_bytes,omitempty"`
}

// Node is a process with its children in start order.
type Node struct {
	Process
	Children []Ref `json:"children,omitempty"`
}

// Tree is the processes of a session, dead ancestors included. Roots are the
// nodes that no other node of the tree created.
type Tree struct {
	Head
	Session *Session `json:"session,omitempty"`
	Roots   []Ref    `json:"roots"`
	Nodes   []Node   `json:"nodes"`
}

// Sessions is a list of sessions.
type Sessions struct {
	Head
	Items []Session `json:"items"`
	Next  string    `json:"next,omitempty"`
}

// Version is GET /v1/version.
type Version struct {
	Head
	Version   string     `json:"version"`
	API       int        `json:"api"`
	ABI       string     `json:"abi"`
	PID       int        `json:"pid"`
	Ephemeral bool       `json:"ephemeral"`
	Level     int        `json:"level"`
	Mode      string     `json:"mode"`
	Started   *time.Time `json:"started,omitempty"`
}

// Status is GET /v1/status.
type Status struct {
	Head
	Level   int      `json:"level"`
	Missing []string `json:"missing,omitempty"` // what the next level lacks
	Mode    string   `json:"mode"`
	// Limits are optional programs that the kernel refused. What the level
	// promises holds without them.
	Limits   []string `json:"limits,omitempty"`
	Degraded []string `json:"degraded,omitempty"` // what does not work as it should
	// RefusesForks is what refuses condemned members their forks: lsm, fmod_ret
	// or none. It makes an end shorter, and proves nothing.
	RefusesForks string `json:"refuses_forks"`
	SelfProtect  bool   `json:"self_protect"` // members may not act against the daemon
	// Capabilities are those that the daemon has, as capabilities(7) names them.
	Capabilities []string          `json:"capabilities,omitempty"`
	Counters     map[string]uint64 `json:"counters,omitempty"`
	Lost         uint64            `json:"lost"`
	Breaker      Breaker           `json:"breaker"`
	// SelfCheck is absent while none was made yet.
	SelfCheck *SelfCheck `json:"self_check,omitempty"`
	Sessions  int        `json:"sessions"`
	Live      int        `json:"live"`
}

// NewSession asks for a session over the caller's own child, blocked before
// its exec. StartNS of the root may be absent: its parent holds the PID.
type NewSession struct {
	Root Ref    `json:"root"`
	Name string `json:"name,omitempty"`
	// Adopt makes a session of a process that has been running for some time,
	// with its descendants. It has no owner.
	Adopt         bool   `json:"adopt,omitempty"`
	GraceMS       *int64 `json:"grace_ms,omitempty"`     // absent: the policy's defaults.grace
	OnRootExit    string `json:"on_root_exit,omitempty"` // end (default), report
	MaxProcesses  int    `json:"max_processes,omitempty"`
	MaxLifetimeMS int64  `json:"max_lifetime_ms,omitempty"`
	MaxRSSBytes   int64  `json:"max_rss_bytes,omitempty"`
	IdleMS        int64  `json:"idle_ms,omitempty"`
}

// KeepRequest hands processes over to a kept session that outlives theirs.
type KeepRequest struct {
	Refs   []Ref     `json:"refs"` // with start_ns; the first one's name is the session's
	Reason string    `json:"reason"`
	Until  time.Time `json:"until"`
}

// Event is one line of an event stream.
type Event struct {
	Head
	Seq      U64          `json:"seq,omitempty"`
	TimeNS   U64          `json:"time_ns,omitempty"`
	Time     *time.Time   `json:"time,omitempty"`
	Type     string       `json:"type,omitempty"` // fork, exec, exit, reparent, reaped, session, lost
	Process  *Process     `json:"process,omitempty"`
	Session  string       `json:"session,omitempty"`
	State    SessionState `json:"state,omitempty"`  // session
	Reason   string       `json:"reason,omitempty"` // session; of the stream's end
	From     *Ref         `json:"from,omitempty"`   // reparent
	To       *Ref         `json:"to,omitempty"`     // reparent
	LostFrom U64          `json:"lost_from,omitempty"`
	LostTo   U64          `json:"lost_to,omitempty"`
	Count    uint64       `json:"count,omitempty"` // lost
	Where    string       `json:"where,omitempty"` // lost: ring, reader, restart
	// Of a loss in the ring, and of a restart: what happened between these
	// boottimes is not among the events. SinceNS may be unknown.
	SinceNS U64 `json:"since_ns,omitempty"`
	UntilNS U64 `json:"until_ns,omitempty"`

	// Of the first line of a recording.
	BootID  string     `json:"boot_id,omitempty"`
	Version string     `json:"version,omitempty"`
	Started *time.Time `json:"started,omitempty"`
}

// Doctor is what this host's kernel can do for lineage.
type Doctor struct {
	Head
	Supported bool         `json:"supported"` // sessions can be tracked here, now, by this caller
	Kernel    string       `json:"kernel"`    // its release
	Level     int          `json:"level"`
	Missing   []string     `json:"missing,omitempty"` // what the next level lacks
	Items     []DoctorItem `json:"items"`
	// SelfCheck is the daemon's last one, absent if none answers.
	SelfCheck *SelfCheck `json:"self_check,omitempty"`
	// Capabilities are the daemon's, absent if none answers.
	Capabilities []string `json:"capabilities,omitempty"`
	// Degraded is what does not work in the daemon as it should.
	Degraded []string `json:"degraded,omitempty"`
}

// DoctorItem is one thing that lineage needs or can use.
type DoctorItem struct {
	Feature  string `json:"feature"`
	OK       bool   `json:"ok"`
	Required bool   `json:"required"`
	Why      string `json:"why,omitempty"` // what was found
	Do       string `json:"do,omitempty"`  // what to do about it
}
