//go:build linux

package access

import (
	"errors"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/rs/zerolog"
)

// Audited is c in a record of the audit log.
func (c Caller) Audited() *AuditCaller {
	a := &AuditCaller{UID: int(c.UID), PID: int(c.ID.PID), StartNS: api.U64(c.ID.Start)}
	if c.Member != 0 {
		a.Session = c.Member.String()
	}
	if c.Signed != nil {
		a.Command, a.Operators = c.Signed.Command, c.Signed.Operators
	}
	return a
}

// MarshalZerologObject is c in the daemon's log.
func (c Caller) MarshalZerologObject(e *zerolog.Event) {
	e.Uint32(system.KeyUID, c.UID).Uint32(system.KeyPID, c.ID.PID)
}

// Refuse is the error of a decision against a caller, recorded. what names the target in the caller's words.
func (a *Access) Refuse(c Caller, v Verb, what string, d Decision) error {
	a.Refused(c, v, what, d.Why)
	if what != "" {
		what = " " + what
	}
	return api.NewError(api.CodeDenied, fmt.Sprintf("%v%s: not permitted: %s", v, what, d.Why), d.Hint)
}

// Hide records a refusal about a session that c may not read, and returns the error of none: names and ids are for readers
// only. It was recorded if Hide has returned none before.
func (a *Access) Hide(c Caller, v Verb, what string, d Decision, none error) error {
	if errors.Is(none, errHidden) {
		return none
	}
	_ = a.Refuse(c, v, what, d)
	return fmt.Errorf("%w%w", none, errHidden)
}

var errHidden = errors.New("")

// Refused records a refusal in the log and in the audit log.
func (a *Access) Refused(c Caller, v Verb, what, why string) {
	e := a.o.Log.Warn().Str(system.KeyVerb, v.String()).Str(system.KeyName, what).Str(system.KeyWhy, why).EmbedObject(c)
	if c.Member != 0 {
		e = e.Str(system.KeyMember, c.Member.String())
	}
	e.Msg("refused")
	a.count(v.String())
	a.refusals.Add(a.record(c, v, AuditRefused, why, &AuditTarget{Session: what}))
}

// Done records a verb that changed something and is not an end.
func (a *Access) Done(c Caller, v Verb, session string) {
	a.o.Audit(a.record(c, v, AuditDone, "", &AuditTarget{Session: session}))
}

// DoneTo records what was done to one process of a session, and its result.
func (a *Access) DoneTo(c Caller, v Verb, result, session string, ref api.Ref) {
	a.o.Audit(a.record(c, v, AuditDone, result, &AuditTarget{Session: session, PID: ref.PID, StartNS: ref.StartNS}))
}

// Did records a verb that is about no one session: the daemon, or a signed command.
func (a *Access) Did(c Caller, v Verb, what string) {
	a.o.Audit(a.record(c, v, AuditDone, what, nil))
}

// Unsignalled records that a signal was not sent.
func (a *Access) Unsignalled(c Caller, why, session string, ref api.Ref) {
	a.count(Kill.String())
	a.refusals.Add(a.record(c, Kill, AuditRefused, why, &AuditTarget{Session: session, PID: ref.PID, StartNS: ref.StartNS}))
}

func (a *Access) record(c Caller, v Verb, decision, reason string, t *AuditTarget) AuditRecord {
	return AuditRecord{
		Time: time.Now().UTC(), Verb: v.String(), Decision: decision, Reason: reason,
		Caller: c.Audited(), Target: t, Mode: a.o.Mode(),
	}
}

// Flush writes the refusals that were only counted so far.
func (a *Access) Flush() { a.refusals.Flush() }
