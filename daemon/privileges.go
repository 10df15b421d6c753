//go:build linux

package daemon

import (
	"path/filepath"

	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/privilege"
	"github.com/lineage-ebpf/lineage/tracer"
)

// giveUp drops the privileges that are no longer needed: everything is loaded,
// attached, opened and listened on. If it fails the daemon serves nevertheless, and
// says so in its status, and which of those that it needs it never had, as in a
// container.
func (s *service) giveUp(drop func(...privilege.Capability) error, i instance.Instance) {
	if drop == nil {
		return
	}
	needed := privilege.Needed(tracer.KernelRelease(), filepath.Dir(i.Socket))
	if err := drop(needed...); err != nil {
		s.start.CapabilitiesErr = err
		s.log.Error().Err(err).Msg("privileges not given up")
	}
	held, err := privilege.Held()
	if err != nil {
		s.log.Error().Err(err).Msg("privileges not read")
		return
	}
	s.start.Capabilities = held
	if s.start.Lacking = privilege.Lacking(needed, held); s.start.Lacking != nil {
		s.log.Error().Err(s.start.Lacking).Msg("capabilities missing")
	}
	s.log.Info().Strs(logging.KeyCapabilities, held).Msg("privileges given up")
}

// protectSelf does what the policy says about members that act against the
// daemon. One that cannot is no worse than one that was not asked to, and says
// so in its status. What an earlier daemon attached goes if it is not asked for.
func (s *service) protectSelf(on bool) {
	err := s.kernel.SelfProtect(on)
	s.start.SelfProtect, s.start.SelfProtectErr = on && err == nil, err
	if err != nil {
		s.log.Error().Err(err).Msg("self_protect not in force")
	}
}
