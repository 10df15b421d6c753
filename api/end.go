package api

// PlanProcess is a process that an end would signal, or that it would spare.
type PlanProcess struct {
	Process
	Why      string `json:"why"`
	Ports    []Port `json:"ports,omitempty"`
	Locks    []Lock `json:"locks,omitempty"`
	Killable bool   `json:"killable"`
	Reason   string `json:"reason,omitempty"` // why it would not die, or not at once
}

// Plan is what an end would do now; making one sends nothing. An end with its
// Token is refused as changed if it would signal a process that the plan does
// not name or says is spared. A process that is gone since changes nothing.
type Plan struct {
	Head
	Session   string        `json:"session"`
	Name      string        `json:"name,omitempty"`
	State     SessionState  `json:"state"`
	Token     string        `json:"token,omitempty"` // absent: nothing to end, or refused
	Processes []PlanProcess `json:"processes"`
	RefusedBy string        `json:"refused_by,omitempty"` // the guard that refuses
	Unknown   []string      `json:"unknown,omitempty"`    // what could not be read of ports and locks
}

// Verdict is what is known of an end.
type Verdict string

// The verdicts of an end.
const (
	VerdictClean   Verdict = "clean"   // proven: no process is left
	VerdictLeft    Verdict = "left"    // some could not be ended
	VerdictUnknown Verdict = "unknown" // there is no proof
)

// OutcomeKind is how a process of an ended session went.
type OutcomeKind string

// The outcomes of a process.
const (
	OutcomeSelf OutcomeKind = "self" // it exited on its own
	OutcomeTerm OutcomeKind = "term" // by SIGTERM
	OutcomeKill OutcomeKind = "kill" // by SIGKILL
	OutcomeKept OutcomeKind = "kept"
	OutcomeLeft OutcomeKind = "left" // it is still there
)

// Outcome is how one process of an ended session went.
type Outcome struct {
	Ref
	Comm      string      `json:"comm,omitempty"`
	Argv      []string    `json:"argv,omitempty"`
	Container string      `json:"container,omitempty"` // that a broker made for the session: its name or id
	Outcome   OutcomeKind `json:"outcome"`
	Why       string      `json:"why,omitempty"`
	Leftover  bool        `json:"leftover,omitempty"` // was alive when its session's root was gone
}

// Zombie is a dead process that waits for its parent.
type Zombie struct {
	Ref
	Comm   string   `json:"comm,omitempty"`
	Reaper *Process `json:"reaper,omitempty"`
}

// Caller is who asked for something.
type Caller struct {
	UID  int    `json:"uid"`
	PID  int    `json:"pid,omitempty"`
	Comm string `json:"comm,omitempty"`
}

// Report is the receipt of an end.
type Report struct {
	Head
	Session        string       `json:"session,omitempty"` // absent: of init, which has none
	Name           string       `json:"name,omitempty"`
	State          SessionState `json:"state"`
	EndReason      string       `json:"end_reason,omitempty"`
	EndedBy        *Caller      `json:"ended_by,omitempty"`
	Verdict        Verdict      `json:"verdict,omitempty"` // absent while it is not over
	VerdictWhy     string       `json:"verdict_why,omitempty"`
	DurationMS     float64      `json:"duration_ms"`
	Processes      []Outcome    `json:"processes"`
	Started        int          `json:"started,omitempty"` // members over the session's whole life; absent: unknown
	Exited         int          `json:"exited"`            // … gone before the end began
	Killed         int          `json:"killed"`            // … that needed SIGKILL
	Left           int          `json:"left"`
	Zombies        []Zombie     `json:"zombies,omitempty"`
	ConfirmedEmpty bool         `json:"confirmed_empty"`
	Truncated      bool         `json:"truncated,omitempty"` // Processes names only some
	// Brokered is what members handed to other daemons.
	Brokered []Brokered `json:"brokered,omitempty"`
	// WouldEnd are the reasons for which the policy would have ended it, were it enforced.
	WouldEnd []string `json:"would_end,omitempty"`

	// What members held when the end began, or when they were last seen.
	PortsFreed    []Port    `json:"ports_freed,omitempty"`     // nobody listens any more
	PortsBusy     []Port    `json:"ports_busy,omitempty"`      // still listening, by a process that is no member
	PortsTimeWait []Port    `json:"ports_time_wait,omitempty"` // freed, with connections in TIME_WAIT
	LocksReleased []Lock    `json:"locks_released,omitempty"`
	LocksHeld     []Lock    `json:"locks_held,omitempty"`     // still held, by somebody who is no member
	OutputHeldBy  []Process `json:"output_held_by,omitempty"` // the session started, and can still write to its standard output
	HoldsUnknown  []string  `json:"holds_unknown,omitempty"`  // what could not be read of all this
}

// EndRequest ends a session. Both absent: the session's own grace.
type EndRequest struct {
	GraceMS *int64 `json:"grace_ms,omitempty"`
	Now     bool   `json:"now,omitempty"`
	// PlanToken is a Plan's: changed (409) if the plan no longer holds.
	PlanToken string `json:"plan_token,omitempty"`
}
