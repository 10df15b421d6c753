package api

import "time"

// SignalFate is what happens to signals that leave a session.
type SignalFate string

// The fates of a signal.
const (
	SignalsRecorded SignalFate = "recorded"
	SignalsRefused  SignalFate = "refused"
)

// Crossing is a signal that kills or stops, from a member of a guarded session to a process outside
// of it: see signals in the policy.
type Crossing struct {
	Signal  string   `json:"signal"`            // SIGTERM
	To      *Process `json:"to"`                // the receiver, as it was then: PID, user, session, and comm, which it chooses
	Refused bool     `json:"refused,omitempty"` // it was not sent; absent: it was
}

// Sender is a signal and who sent it, as the kernel tells it.
type Sender struct {
	Signal string `json:"signal"` // SIGTERM
	// Kind is process; cgroup_kill: that process, by a write to cgroup.kill; parent, tracer,
	// pid_namespace: that process, by its exit (PR_SET_PDEATHSIG, PTRACE_O_EXITKILL, PID 1 of a
	// namespace); kernel: a terminal, a timer, a limit, or not known; limit: it used up its CPU
	// time; io: a file that signals it; fault: the process itself, by what it executed; oom: the
	// OOM killer, see oom; timer: a timer or asynchronous I/O, as the signal says: its sender may claim
	// that; lineage: the end of its session.
	Kind    string     `json:"kind"`
	Time    *time.Time `json:"time,omitempty"`    // when it was sent; absent: of lineage
	Process *Process   `json:"process,omitempty"` // that is behind it, as it was then: PID, user, session, and comm, which the sender chooses
	Handled bool       `json:"handled,omitempty"` // the process had a handler
	Raised  bool       `json:"raised,omitempty"`  // … and later sent the same signal to itself, as shells do
	Passed  bool       `json:"passed,omitempty"`  // it was sent to the session's owner, such as lineage run, and the owner passed it on
	OOM     *OOM       `json:"oom,omitempty"`     // of the OOM killer; absent: nothing is known of its reason
}

// OOM is why the OOM killer ended a process.
type OOM struct {
	Of         string `json:"of,omitempty"`          // what had no memory left: session; outer, a cgroup around its; host; absent: not known
	Session    string `json:"session,omitempty"`     // whose limit it was: id
	Name       string `json:"name,omitempty"`        // of that session
	LimitBytes uint64 `json:"limit_bytes,omitempty"` // of that session
	PeakBytes  uint64 `json:"peak_bytes,omitempty"`  // of the memory of that session (Linux 5.19)
	RSSBytes   uint64 `json:"rss_bytes,omitempty"`   // that the process had, at most
}
