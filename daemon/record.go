//go:build linux

package daemon

import (
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/audit"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/rs/zerolog"
)

// auditLog is where ends and refusals are recorded; *audit.Log is one.
type auditLog interface {
	Add(audit.Record)
	Err() error
	Close() error
}

// openAudit begins to write the audit log of the instance. One that cannot be
// written is loud, and stops nothing.
func openAudit(path string, r *rules.Policy, log zerolog.Logger) auditLog {
	failing := func(err error) {
		if err == nil {
			log.Warn().Str(logging.KeyPath, path).Msg("audit log is written again")
			return
		}
		log.Error().Err(err).Str(logging.KeyPath, path).Msg("audit records are being lost")
	}
	size := r.Started().Daemon.Audit
	l, err := audit.Open(path, audit.Options{
		MaxBytes: int64(size.MaxSize), Keep: size.Keep, Failed: failing,
		Redact: func(argv []string) []string { return r.Policy().Redact(argv) },
	})
	if err != nil {
		failing(err)
	}
	return l
}

// auditCaller is a caller in a record.
func auditCaller(c access.Caller) *audit.Caller {
	a := &audit.Caller{UID: int(c.UID), PID: int(c.ID.PID), StartNS: api.U64(c.ID.Start)}
	if c.Member != 0 {
		a.Session = c.Member.String()
	}
	return a
}

// done records a verb that changed something and is no end.
func (s *server) done(c access.Caller, v access.Verb, what string) {
	s.audit.Add(audit.Record{
		Time: time.Now().UTC(), Verb: v.String(), Decision: audit.Done,
		Caller: auditCaller(c), Target: &audit.Target{Session: what}, Mode: s.rules.Mode(),
	})
}

// managed records a verb about the daemon itself.
func (s *server) managed(c access.Caller, what string) {
	s.audit.Add(audit.Record{
		Time: time.Now().UTC(), Verb: access.Manage.String(), Decision: audit.Done, Reason: what,
		Caller: auditCaller(c), Mode: s.rules.Mode(),
	})
}

// signalled records what came of a signal to one process.
func (s *server) signalled(c access.Caller, decision, reason string, session string, ref api.Ref) {
	rec := audit.Record{
		Time: time.Now().UTC(), Verb: access.Kill.String(), Decision: decision, Reason: reason, Caller: auditCaller(c),
		Target: &audit.Target{Session: session, PID: ref.PID, StartNS: ref.StartNS}, Mode: s.rules.Mode(),
	}
	if decision == audit.Refused {
		s.tally.refused(access.Kill.String())
		s.refusals.Add(rec)
		return
	}
	s.audit.Add(rec)
}

// refused records a refusal. what names the target as the caller did.
func (s *server) refused(c access.Caller, v access.Verb, what, why string) {
	s.tally.refused(v.String())
	s.refusals.Add(audit.Record{
		Time: time.Now().UTC(), Verb: v.String(), Decision: audit.Refused, Reason: why,
		Caller: auditCaller(c), Target: &audit.Target{Session: what}, Mode: s.rules.Mode(),
	})
}
