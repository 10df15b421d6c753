//go:build linux

package daemon

import (
	"path/filepath"

	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// giveUp drops the privileges that are no longer needed: everything is loaded,
// attached, opened and listened on. If it fails the daemon serves nevertheless. The
// status shows that, and which needed capabilities it never had, as in a container.
func (s *Service) giveUp(drop func(...system.Capability) error, i system.Instance) {
	if drop == nil {
		return
	}
	needed := system.NeededCapabilities(procfs.KernelRelease(), filepath.Dir(i.Socket))
	if err := drop(needed...); err != nil {
		s.start.CapabilitiesErr = err
		s.parts.log.Error().Err(err).Msg("privileges not given up")
	}
	held, err := system.HeldCapabilities()
	if err != nil {
		s.parts.log.Error().Err(err).Msg("privileges not read")
		return
	}
	s.start.Capabilities = held
	if s.start.Lacking = system.LackingCapabilities(needed, held); s.start.Lacking != nil {
		s.parts.log.Error().Err(s.start.Lacking).Msg("capabilities missing")
	}
	s.parts.log.Info().Strs(system.KeyCapabilities, held).Msg("privileges given up")
}

// protectSelf applies the policy about members that act against the daemon. If the
// kernel cannot, the daemon serves without it, and the status shows that. What an
// earlier daemon attached is removed unless the policy asks for it.
func (s *Service) protectSelf(on bool) {
	err := s.parts.kernel.SelfProtect(on)
	s.start.SelfProtect, s.start.SelfProtectErr = on && err == nil, err
	if err != nil {
		s.parts.log.Error().Err(err).Msg("self_protect not in force")
	}
}
