package api

import "time"

// Edge is one step from a process to its creator.
type Edge struct {
	Child      Process     `json:"child"`                // the process that was created
	Creator    *EdgeEnd    `json:"creator,omitempty"`    // absent: before tracing began
	Kind       string      `json:"kind"`                 // fork, clone_parent, adopted, root
	Time       *time.Time  `json:"time,omitempty"`       // when
	Evidence   Evidence    `json:"evidence"`             // how this is known
	Reparented []Reparents `json:"reparented,omitempty"` // the parents that the kernel gave it later
}

// EdgeEnd is the creator of an Edge, as it was at that time.
type EdgeEnd struct {
	Ref
	Comm   string     `json:"comm,omitempty"`   // the kernel's name at that time
	Argv   []string   `json:"argv,omitempty"`   // arguments at that time
	Alive  bool       `json:"alive"`            // it is alive now
	Exited *time.Time `json:"exited,omitempty"` // when it exited
}

// Reparents is one change of the kernel's parent.
type Reparents struct {
	Time *time.Time `json:"time,omitempty"` // when
	From *Ref       `json:"from,omitempty"` // the parent before
	To   *Ref       `json:"to,omitempty"`   // the parent after
}

// Why says which session a process belongs to, and how: edges run from the process to
// the root of its session. Session is absent when it belongs to none.
type Why struct {
	Head
	Process Process `json:"process"` // that was asked for
	// Other had the PID, in no session, and a signal has killed it; for root only.
	Other   *Process `json:"other,omitempty"`
	Parent  *Process `json:"parent,omitempty"`  // the kernel's parent now
	Session *Session `json:"session,omitempty"` // absent: it belongs to none
	Edges   []Edge   `json:"edges,omitempty"`   // from the process to the root of its session
	// Delegated is how the work that the process is part of came to its session,
	// if not by a fork.
	Delegated *Delegated `json:"delegated,omitempty"`
	Holds     *Holds     `json:"holds,omitempty"` // ports, locks and files
}

// Delegated is work that a member asked another daemon for: the process that was
// found, or only the request if none was found.
type Delegated struct {
	Broker string `json:"broker,omitempty"` // tmux, systemd, docker …; absent: no request was seen
	// State is attributed, unattributed, ambiguous if it is not certain which of several commands in a
	// container was asked for, or pending while it may still be found.
	State    string     `json:"state"`
	Asked    *Process   `json:"asked,omitempty"`    // the member that asked
	Time     *time.Time `json:"time,omitempty"`     // when
	Process  *Process   `json:"process,omitempty"`  // the process that was found
	Evidence *Evidence  `json:"evidence,omitempty"` // why it is attributed
	Session  string     `json:"session,omitempty"`  // that the process was entered for
	Ends     bool       `json:"ends,omitempty"`     // it ends with the session that asked for it
	// Observed: it is not ended with that session because the policy is only observed.
	Observed bool `json:"observed,omitempty"`
}

// Shared reports whether a server that the user's other terminals share runs all that the process asks for. None of it is
// known to be the session's.
func (b Delegated) Shared() bool { return b.Broker == "codex" && b.Process == nil }
