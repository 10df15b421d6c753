package api

import "time"

// PlanProcess is a process that an end would signal, or that it would spare.
type PlanProcess struct {
	Process
	Why      string `json:"why"`              // why it is a member, or spared
	Ports    []Port `json:"ports,omitempty"`  // that it listens on
	Locks    []Lock `json:"locks,omitempty"`  // that it holds
	Killable bool   `json:"killable"`         // SIGKILL would end it soon
	Reason   string `json:"reason,omitempty"` // why it would not die, or not at once
}

// Plan is what an end would do now; making one sends nothing. An end with its
// Token is refused as changed if it would signal a process that the plan does
// not name or says is spared. A process that is gone since changes nothing.
type Plan struct {
	Head
	Session   string        `json:"session"`              // id of the session
	Branch    *Ref          `json:"branch,omitempty"`     // only of this process and what it started; absent: of the whole session
	Call      string        `json:"call,omitempty"`       // only of what that process started in this tool call
	Name      string        `json:"name,omitempty"`       // of the session
	Ambiguous int           `json:"ambiguous,omitempty"`  // live processes of which another call may be the one, too: they would not be ended
	State     SessionState  `json:"state"`                // of the session
	Token     string        `json:"token,omitempty"`      // absent: nothing to end, or refused
	Processes []PlanProcess `json:"processes"`            // that an end would signal, or spare
	RefusedBy string        `json:"refused_by,omitempty"` // the guard that refuses
	Unknown   []string      `json:"unknown,omitempty"`    // what could not be read of ports and locks
}

// Verdict is what is known of an end.
type Verdict string

// The verdicts of an end.
const (
	VerdictClean   Verdict = "clean"   // proven: no process is left
	VerdictLeft    Verdict = "left"    // some could not be ended
	VerdictUnknown Verdict = "unknown" // neither could be proven
)

// OutcomeKind is how a process of an ended session went.
type OutcomeKind string

// The outcomes of a process.
const (
	OutcomeSelf OutcomeKind = "self" // it exited on its own
	OutcomeTerm OutcomeKind = "term" // by SIGTERM
	OutcomeKill OutcomeKind = "kill" // by SIGKILL
	OutcomeLeft OutcomeKind = "left" // it is still there
	// Of a process that was in another session when the end began:
	OutcomeKept   OutcomeKind = "kept"   // it was kept
	OutcomeBranch OutcomeKind = "branch" // the root of a branch, or of another session nested in this one, that was ended before
)

// Moved reports whether the process was in another session when the end began.
func (k OutcomeKind) Moved() bool { return k == OutcomeKept || k == OutcomeBranch }

// Outcome is how one process of a session ended.
type Outcome struct {
	Ref
	Comm      string      `json:"comm,omitempty"`      // the kernel's name
	Argv      []string    `json:"argv,omitempty"`      // arguments
	Container *Container  `json:"container,omitempty"` // that it ran in
	Outcome   OutcomeKind `json:"outcome"`             // self, term, kill, left, kept, branch
	Session   string      `json:"session,omitempty"`   // kept, branch: the session that it was moved to
	Why       string      `json:"why,omitempty"`       // why it is still alive; kept, branch: the caller or rule, the time, the reason
	Killer    *Sender     `json:"killer,omitempty"`    // who sent the signal that it died of, or handled, if not lineage
	Leftover  bool        `json:"leftover,omitempty"`  // was alive when the root of its session was gone, and no end had begun before that
}

// Zombie is a dead process that waits for its parent.
type Zombie struct {
	Ref
	Comm   string   `json:"comm,omitempty"`   // the kernel's name
	Reaper *Process `json:"reaper,omitempty"` // the parent that has to wait for it
}

// Caller is the user and the process that made a request.
type Caller struct {
	UID  int    `json:"uid"`            // its user
	PID  int    `json:"pid,omitempty"`  // its process
	Comm string `json:"comm,omitempty"` // the name of its process
	// Reason is of a halt, which gives it.
	Reason string `json:"reason,omitempty"`
	// The signed command that the process brought.
	Command   string   `json:"command,omitempty"`   // its id
	Operators []string `json:"operators,omitempty"` // the names of the operators who signed it
}

// Death is how the root of a session exited: with which code or signal, and the sender.
type Death struct {
	Process
	// After is the last member that was killed before: if the exit code is 128 and a signal, by that
	// one; else by the OOM killer or, if the code is not 0, from outside. Absent: none is known.
	After *Process `json:"after,omitempty"`
	Whole bool     `json:"whole,omitempty"` // of every member it is known whether it died before, and how
}

// Report is the receipt of an end.
type Report struct {
	Head
	Session        string       `json:"session,omitempty"`     // absent: of init, which has none
	Name           string       `json:"name,omitempty"`        // of the session
	State          SessionState `json:"state"`                 // of the session: ending, condemned, ended
	Ended          *time.Time   `json:"ended,omitempty"`       // when the last member was gone; absent: it is not over, or not known
	EndReason      string       `json:"end_reason,omitempty"`  // as in a session
	EndedBy        *Caller      `json:"ended_by,omitempty"`    // the caller that asked for the end
	Verdict        Verdict      `json:"verdict,omitempty"`     // clean, left, unknown; absent while it is not over
	VerdictWhy     string       `json:"verdict_why,omitempty"` // why it is not clean
	Root           *Death       `json:"root,omitempty"`        // how the root exited; absent: it lives, or that is not known
	DurationMS     float64      `json:"duration_ms"`           // from the beginning of the end to the verdict
	Processes      []Outcome    `json:"processes"`             // that were alive when the end began, and how each ended; before them what was kept, and branches
	Started        int          `json:"started,omitempty"`     // members over the session's whole life; absent: unknown
	Exited         int          `json:"exited"`                // … gone before the end began
	Killed         int          `json:"killed"`                // … that needed SIGKILL
	Left           int          `json:"left"`                  // processes that are still alive; before the verdict as the kernel counts them
	Zombies        []Zombie     `json:"zombies,omitempty"`     // dead members that wait for their parent
	ConfirmedEmpty bool         `json:"confirmed_empty"`       // the kernel counts no live member, and a scan of its tasks found none
	Limits         *Limits      `json:"limits,omitempty"`      // that its cgroup held the session to
	Account        *Account     `json:"account,omitempty"`     // what its members used, by their cgroup
	Calls          []Call       `json:"calls,omitempty"`       // the tool calls, at most 16, whose exited members used most CPU time, most first
	Truncated      bool         `json:"truncated,omitempty"`   // Processes names only some
	Counted        *Counted     `json:"counted,omitempty"`     // what the verdict is based on; absent: the kernel no longer had the session
	AuditHead      string       `json:"audit_head,omitempty"`  // number and hash of the newest record of the audit log on the disk, before this one's
	// Also are the sessions that end with a branch: its processes opened them. Each
	// has a report of its own.
	Also []string `json:"also,omitempty"`
	// Delegated is what members handed to other daemons.
	Delegated []Delegated `json:"delegated,omitempty"`
	// WouldEnd are the reasons for which the policy would have ended it, were it enforced.
	WouldEnd []string `json:"would_end,omitempty"`

	// What members held when the end began, or when they were last seen.
	PortsFreed    []Port    `json:"ports_freed,omitempty"`     // no process listens now
	PortsBusy     []Port    `json:"ports_busy,omitempty"`      // still listening, by a process outside
	PortsTimeWait []Port    `json:"ports_time_wait,omitempty"` // freed, with connections in TIME_WAIT
	LocksReleased []Lock    `json:"locks_released,omitempty"`  // free now
	LocksHeld     []Lock    `json:"locks_held,omitempty"`      // still held, by a process outside
	OutputHeldBy  []Process `json:"output_held_by,omitempty"`  // the session started, and can still write to its standard output
	HoldsUnknown  []string  `json:"holds_unknown,omitempty"`   // what could not be read of all this
}

// Add adds how a process ended, and counts it.
func (r *Report) Add(o Outcome) {
	if o.Outcome == OutcomeKill {
		r.Killed++
	}
	r.Processes = append(r.Processes, o)
}

// EndRequest ends a session. Both absent: the session's own grace.
type EndRequest struct {
	GraceMS *int64 `json:"grace_ms,omitempty"` // from SIGTERM to SIGKILL; absent: the session's own
	Now     bool   `json:"now,omitempty"`      // SIGKILL at once
	// PlanToken is a Plan's: changed (409) if the plan no longer holds.
	PlanToken string `json:"plan_token,omitempty"`
	Call      string `json:"call,omitempty"` // only with a process: end what it started in this tool call, and not the process
}

// PlanRequest is what a plan is about, besides what its path names.
type PlanRequest struct {
	Call string `json:"call,omitempty"` // as in an EndRequest
}
