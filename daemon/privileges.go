//go:build linux

package daemon

import (
	"path/filepath"

	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/privilege"
	"github.com/lineage-ebpf/lineage/tracer"
)

// privileges is what the daemon may do, and why that is more than it needs.
type privileges struct {
	held []string
	err  error
}

// giveUp drops the privileges that are no longer needed: everything is loaded,
// attached, opened and listened on. If it fails the daemon serves nevertheless, and
// says so in its status.
func (s *server) giveUp(drop func(...privilege.Capability) error, i instance.Instance) {
	if drop == nil {
		return
	}
	p := &s.privileges
	if p.err = drop(privilege.Needed(tracer.KernelRelease(), filepath.Dir(i.Socket))...); p.err != nil {
		s.log.Error().Err(p.err).Msg("privileges not given up")
	}
	held, err := privilege.Held()
	if err != nil {
		s.log.Error().Err(err).Msg("privileges not read")
		return
	}
	p.held = held
	s.log.Info().Strs(logging.KeyCapabilities, held).Msg("privileges given up")
}
