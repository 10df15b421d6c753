package api

import "time"

// The modes of a halt.
const (
	ModeHalt  = "halt"  // every known agent dies at its exec, and no session is opened
	ModeDrain = "drain" // the same, outside of sessions; what runs continues
	ModeOff   = "off"   // of a request: lift it
)

// MaxHaltReason bounds the reason of a halt, in bytes.
const MaxHaltReason = 200

// HaltRequest is the body of POST /v1/halt.
type HaltRequest struct {
	Mode     string   `json:"mode"`               // halt, drain or off
	Reason   string   `json:"reason,omitempty"`   // one line, up to 200 bytes; not with off
	Sessions []string `json:"sessions,omitempty"` // ids, names or patterns of names of what a halt ends
	All      bool     `json:"all,omitempty"`      // instead: every session
}

// Halt is a halt that is in force on a host.
type Halt struct {
	Mode   string     `json:"mode"`            // halt or drain
	Reason string     `json:"reason"`          // why, as root gave it
	UID    int        `json:"uid"`             // of the user that asked for it
	Since  *time.Time `json:"since,omitempty"` // when it began
}

// Halted is the reply to a HaltRequest.
type Halted struct {
	Head
	Halt  *Halt           `json:"halt,omitempty"` // that is in force now
	Items []HaltedSession `json:"items"`          // sessions whose end it began, or that it had to spare
}

// HaltedSession is a session that a halt met.
type HaltedSession struct {
	ID      string `json:"id"`                // of the session
	Name    string `json:"name,omitempty"`    // of the session
	Refused string `json:"refused,omitempty"` // why a guard spares it; absent: its end has begun
}
