//go:build linux

package daemon

import (
	"context"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// statusPeriod is how often the service manager gets the status.
const statusPeriod = 10 * time.Second

// reportStatus keeps the service manager informed. The watchdog's message is sent from
// the registry's goroutine, because everything depends on that: if it is stuck, the
// message is missing.
func (s *Service) reportStatus(ctx context.Context, m *instance.Manager) {
	if !m.Present {
		return
	}
	period := statusPeriod
	if m.Watchdog > 0 {
		period = min(period, m.Watchdog/3)
	}
	tick := time.Tick(period)
	for {
		if err := s.Registry.Read(func(v registry.View) { m.Notify(instance.Alive, instance.StatusField(s.status.Line(v))) }); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}
