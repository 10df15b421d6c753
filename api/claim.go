package api

import (
	"context"
	"net/http"
	"time"
)

// What a member says of itself and of what it starts is a claim: it is shown as one, and decides
// nothing. A claim is about a process and about everything that this process starts later.

// Trace is the place of a process in a distributed trace (W3C Trace Context), as the variable
// TRACEPARENT of a child of the agent said at its exec.
type Trace struct {
	TraceID string `json:"trace_id"`          // 32 hexadecimal digits, lower case
	SpanID  string `json:"span_id"`           // 16 hexadecimal digits: the agent's span, which the process From is below
	Sampled bool   `json:"sampled,omitempty"` // the agent says that it records the trace
	From    Ref    `json:"from"`              // the process that has the variable: this one, or one that it descends from by creator
	Claimed bool   `json:"claimed"`           // always true: a member said so
}

// Call is a tool call of a coding agent, as the agent's hooks reported it.
type Call struct {
	ID      string     `json:"id"`              // from the agent, or a hash of session, tool and input if the agent gives none; at most 128 bytes
	Tool    string     `json:"tool,omitempty"`  // its name; at most 64 bytes
	Agent   *Ref       `json:"agent,omitempty"` // the agent's process
	Began   *time.Time `json:"began,omitempty"` // when its beginning was reported
	Ended   *time.Time `json:"ended,omitempty"` // when its end was reported; absent: it is open, or its end was never reported
	Claimed bool       `json:"claimed"`         // always true: a member said so
	Used    *Used      `json:"used,omitempty"`  // in a mark, a receipt and a list of calls: what those of its processes used that have exited and that no other call may have started; absent: there are none
}

// Used is what processes used in their lives. What events were lost of is missing.
type Used struct {
	Processes    int     `json:"processes"`         // how many
	CPUSeconds   float64 `json:"cpu_seconds"`       // user and system time, except for the last milliseconds of each process
	PeakRSSBytes uint64  `json:"peak_rss_bytes"`    // of the largest process
	Largest      string  `json:"largest,omitempty"` // its name (comm)
}

// The phases of a call.
const (
	PhaseBegin = "begin"
	PhaseEnd   = "end"
)

// MarkRequest reports that a tool call begins or ends. Only a member may, and only for an agent
// that it descends from by creator, in its own session. A call that begins again while it is open
// is the same one.
type MarkRequest struct {
	Phase string `json:"phase"`          // begin, end
	ID    string `json:"id,omitempty"`   // of the call; at most 128 bytes. Absent at an end: all open calls of the agent
	Tool  string `json:"tool,omitempty"` // its name; at most 64 bytes
	Agent Ref    `json:"agent"`          // the agent's process; as it is an ancestor of the caller, start_ns may be absent
}

// Mark is the reply to a MarkRequest.
type Mark struct {
	Head
	Session string `json:"session"` // of the agent
	Calls   []Call `json:"calls"`   // that began or ended
}

// Mark sends POST /v1/marks.
func (c *client) Mark(ctx context.Context, q MarkRequest) (*Mark, error) {
	return fetch[Mark](c, ctx, http.MethodPost, "/v1/marks", nil, q)
}
