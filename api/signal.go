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
	// Kind is process, also where the kernel acts for one, as on a write to cgroup.kill; kernel: a
	// terminal, a resource limit, a PID namespace that ends; fault: the process itself, by what it
	// executed; oom: the OOM killer; timer: a timer or asynchronous I/O, as the signal says: its
	// sender may claim that; lineage: the end of its session.
	Kind    string     `json:"kind"`
	Time    *time.Time `json:"time,omitempty"`    // when it was sent; absent: of lineage
	Process *Process   `json:"process,omitempty"` // of kind process, as it was then: PID, user, session, and comm, which the sender chooses
	Handled bool       `json:"handled,omitempty"` // the process had a handler
	Raised  bool       `json:"raised,omitempty"`  // … and later sent the same signal to itself, as shells do
	Passed  bool       `json:"passed,omitempty"`  // it was sent to the session's owner, such as lineage run, and the owner passed it on
}
