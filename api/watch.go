package api

import "time"

// Frame is one line of GET /v1/watch: the whole picture at first, then what
// changed. Applied in order, what is removed before what is new, they give the
// picture of TimeNS, whatever happened between two lines: a reader that is slow
// gets fewer lines, never an older picture. A picture or a change that is too
// long for one line comes in several at once, all but the last of them Partial.
type Frame struct {
	Head                  // kind: snapshot, diff, heartbeat, end
	Rev      U64          `json:"rev,omitempty"`      // grows with each line
	TimeNS   U64          `json:"time_ns,omitempty"`  // boottime of the picture
	Upsert   []Process    `json:"upsert,omitempty"`   // new or changed, whole; dead ancestors and what exited lately included
	Remove   []Ref        `json:"remove,omitempty"`   // no longer in the picture
	Sessions []Session    `json:"sessions,omitempty"` // new or changed, whole
	Closed   []string     `json:"closed,omitempty"`   // ids of sessions no longer in the picture
	Status   *WatchStatus `json:"status,omitempty"`   // of the daemon; only if it has changed
	Partial  bool         `json:"partial,omitempty"`  // the rest of it is in the next line
	Reason   string       `json:"reason,omitempty"`   // of end: slow, stopping
}

// WatchStatus is what a status line shows. It is in the first line and in
// every one in which it changed.
type WatchStatus struct {
	Level     int        `json:"level"`                // guarantee level, 1 to 4
	Mode      string     `json:"mode"`                 // observe, enforce
	Degraded  []string   `json:"degraded,omitempty"`   // what does not work as it should
	Lost      uint64     `json:"lost"`                 // events, since the daemon started
	Forks     uint64     `json:"forks"`                // of members, since the daemon started
	Live      int        `json:"live"`                 // members of all sessions
	Breaker   Breaker    `json:"breaker"`              // the circuit breaker
	Halt      *Halt      `json:"halt,omitempty"`       // that is in force
	SelfCheck *SelfCheck `json:"self_check,omitempty"` // absent: none was made yet
	ReadOnly  bool       `json:"read_only,omitempty"`  // the caller may end nothing: a member
}

// SelfCheck is the result of the daemon's last canary session.
type SelfCheck struct {
	OK  bool       `json:"ok"`            // it passed
	At  *time.Time `json:"at,omitempty"`  // when it was over
	Why string     `json:"why,omitempty"` // why it failed
}

// KillRequest signals one member. Signal is TERM, KILL or CONT.
type KillRequest struct {
	Signal string `json:"signal"` // TERM, KILL, CONT
}

// Killed is the reply to a KillRequest. Outcome is sent, gone or refused.
type Killed struct {
	Head
	Process Process `json:"process"` // that was meant
	Outcome string  `json:"outcome"` // sent, gone, refused
}
