package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// ProcessState is whether a process is alive.
type ProcessState string

// The states of a process.
const (
	StateLive   ProcessState = "live"
	StateZombie ProcessState = "zombie" // it has exited and is not reaped
	StateExited ProcessState = "exited"
)

// SessionState is how far the end of a session is.
type SessionState string

// The states of a session, in order.
const (
	StateActive    SessionState = "active"
	StateEnding    SessionState = "ending"    // its members have got SIGTERM
	StateCondemned SessionState = "condemned" // its members get SIGKILL
	StateEnded     SessionState = "ended"
)

// ParseRef reads PID or PID@START_NS, as String and `-o name` print it. A PID without
// start is the process that has it now.
func ParseRef(s string) (Ref, error) {
	pid, start, exact := strings.Cut(s, "@")
	p, err := strconv.ParseUint(pid, 10, 31)
	ns, inexact := strconv.ParseUint(start, 10, 64)
	if err != nil || p == 0 || exact && (inexact != nil || ns == 0) {
		return Ref{}, fmt.Errorf("parse process %q: want PID or PID@START_NS", s)
	}
	return Ref{int(p), U64(ns)}, nil
}

// MarshalJSON writes one line of an event stream, with its newline: json.Marshal would do the
// same at twice the cost, as it reads the line again. A line of kind "process" is
// the process document itself, as every other route gives it.
func (e Event) MarshalJSON() ([]byte, error) {
	type line Event
	var doc any = line(e)
	if e.Kind == "process" && e.Process != nil {
		p := *e.Process
		p.Head = e.Head
		doc = p
	}
	// No HTML escapes here: an encoder that wants them escapes this output again. What
	// is escaped here stays escaped.
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(doc)
	return b.Bytes(), err
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (e *Event) UnmarshalJSON(b []byte) error {
	type line Event
	if err := json.Unmarshal(b, (*line)(e)); err != nil {
		return err
	}
	if e.Kind != "process" || e.Process != nil {
		return nil
	}
	p := new(Process)
	if err := json.Unmarshal(b, p); err != nil {
		return err
	}
	// The fields that both documents have belong to the process here.
	*e = Event{Head: p.Head, Process: p}
	p.Head = Head{}
	return nil
}
