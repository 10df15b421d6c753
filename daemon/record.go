//go:build linux

package daemon

import (
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/rs/zerolog"
)

// openAudit begins to write the audit log of the instance. If it cannot be written, the
// daemon reports that and continues.
func openAudit(path string, r *rules.Policy, log zerolog.Logger) *access.AuditLog {
	failing := func(err error) {
		if err == nil {
			log.Warn().Str(system.KeyPath, path).Msg("audit log is written again")
			return
		}
		log.Error().Err(err).Str(system.KeyPath, path).Msg("audit records are being lost")
	}
	size := r.Started().Daemon.Audit
	l, err := access.OpenAudit(path, access.AuditOptions{
		MaxBytes: int64(size.MaxSize), Keep: size.Keep, Failed: failing,
		Redact: r.Redact,
	})
	if err != nil {
		failing(err)
	}
	return l
}

// onRecord names in a receipt the records that were there before it.
func (s *Service) onRecord(_ registry.View, _ *registry.Session, r *api.Report) (wait bool) {
	r.AuditHead = s.parts.audit.Head().String()
	return false
}

// recorded records an end, when it has a verdict.
func (s *Service) recorded(_ registry.View, x *registry.Session) {
	rec := access.AuditRecord{
		Time: time.Now().UTC(), Verb: access.End.String(), Decision: access.AuditDone, Reason: x.Receipt().EndReason,
		Target: &access.AuditTarget{Session: x.Receipt().Session, UID: int(x.Info().UID),
			PID: int(x.Info().Root.PID), StartNS: api.U64(x.Info().Root.Start)},
		Mode: s.Rules.ModeOf(x.Info().UID), Report: x.Receipt(), Caller: x.EndCaller(),
	}
	s.parts.audit.Add(rec)
}
