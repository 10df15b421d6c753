package api

import (
	"fmt"
	"net/http"
)

// Error codes. They are stable, the text is not.
const (
	CodeBadRequest   = "bad_request"
	CodePIDNamespace = "pid_namespace"
	CodeVersion      = "version"
	CodeDenied       = "denied"
	CodeGuarded      = "guarded"
	CodeNotFound     = "not_found"
	CodeMethod       = "method"
	CodeAmbiguous    = "ambiguous"
	CodeIdentity     = "identity"
	CodeChanged      = "changed"
	CodeBusyName     = "busy_name"
	CodeHalted       = "halted"
	CodeLiveSessions = "live_sessions"
	CodeTooLarge     = "too_large"
	CodeTooMany      = "too_many"
	CodeTimedOut     = "timed_out"
	CodeInternal     = "internal"
	CodeStarting     = "starting"
	CodeStopping     = "stopping"
	CodeUntracked    = "untracked"
	CodeUnsupported  = "unsupported"
)

// Exit codes of the command line.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitDenied      = 4
	ExitUnreachable = 5
	ExitLeft        = 6
	ExitUnsupported = 7
	ExitTimedOut    = 8
)

var codes = map[string]struct{ status, exit int }{
	CodeBadRequest:   {http.StatusBadRequest, ExitUsage},
	CodePIDNamespace: {http.StatusBadRequest, ExitUsage},
	CodeVersion:      {http.StatusBadRequest, ExitUnreachable},
	CodeDenied:       {http.StatusForbidden, ExitDenied},
	CodeGuarded:      {http.StatusForbidden, ExitDenied},
	CodeNotFound:     {http.StatusNotFound, ExitNotFound},
	CodeMethod:       {http.StatusMethodNotAllowed, ExitUsage},
	CodeAmbiguous:    {http.StatusConflict, ExitUsage},
	CodeIdentity:     {http.StatusConflict, ExitNotFound},
	CodeChanged:      {http.StatusConflict, ExitFailed},
	CodeBusyName:     {http.StatusConflict, ExitFailed},
	CodeHalted:       {http.StatusForbidden, ExitDenied},
	CodeLiveSessions: {http.StatusConflict, ExitFailed},
	CodeTooLarge:     {http.StatusRequestEntityTooLarge, ExitUsage},
	CodeTooMany:      {http.StatusTooManyRequests, ExitFailed},
	CodeTimedOut:     {http.StatusGatewayTimeout, ExitTimedOut},
	CodeInternal:     {http.StatusInternalServerError, ExitFailed},
	CodeStarting:     {http.StatusServiceUnavailable, ExitUnreachable},
	CodeStopping:     {http.StatusServiceUnavailable, ExitUnreachable},
	CodeUntracked:    {http.StatusServiceUnavailable, ExitUnreachable},
	CodeUnsupported:  {http.StatusNotImplemented, ExitUnsupported},
}

// Error is a refusal. Message is the command line's line after "lineage: ".
type Error struct {
	Code    string    `json:"code"`            // stable: not_found, denied, ambiguous …
	Message string    `json:"message"`         // one line for people
	Hint    string    `json:"hint,omitempty"`  // what to do
	Exit    int       `json:"exit"`            // the exit code of the command line
	Items   []Session `json:"items,omitempty"` // ambiguous: the matches
}

// NewError makes an Error with the exit code that belongs to code.
func NewError(code, message, hint string) *Error {
	return &Error{Code: code, Message: message, Hint: hint, Exit: codes[code].exit}
}

// Errorf makes an Error without a hint.
func Errorf(code, format string, args ...any) *Error {
	return NewError(code, fmt.Sprintf(format, args...), "")
}

// Status is the HTTP status that belongs to the error's code.
func (e *Error) Status() int {
	if c, ok := codes[e.Code]; ok {
		return c.status
	}
	return http.StatusInternalServerError
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

// ErrorDocument is the body of every reply that is not 2xx.
type ErrorDocument struct {
	Head
	Error *Error `json:"error"` // what went wrong
}
