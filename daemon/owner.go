//go:build linux

package daemon

import (
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// wakeOwner continues the owner of a session, whose command is dead, if it is stopped. At the end of the
// session it is called again: the owner may have stopped only then.
func (s *Service) wakeOwner(_ registry.View, x *registry.Session) {
	owner := x.Info().Owner
	if owner.PID == 0 {
		return
	}
	if err := s.Enforcer.Wake(owner); err != nil {
		s.parts.log.Warn().Err(err).Str(logging.KeySession, x.ID().String()).Uint32(logging.KeyPID, owner.PID).Msg("stopped owner not continued")
	}
}
