//go:build linux

package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// statusPeriod is how often the service manager gets the status.
const statusPeriod = 10 * time.Second

// reportStatus keeps the service manager informed. The watchdog's message is sent
// from the registry's goroutine, which does everything that matters: if it is stuck,
// the message is missing.
func (s *server) reportStatus(ctx context.Context, m *instance.Manager) {
	if !m.Present {
		return
	}
	period := statusPeriod
	if m.Watchdog > 0 {
		period = min(period, m.Watchdog/3)
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		if err := s.registry.Read(func(v registry.View) { m.Notify(instance.Alive, s.statusLine(v)) }); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// statusLine is the daemon's status in one line.
func (s *server) statusLine(v registry.View) string {
	f := s.kernel.Features()
	text := fmt.Sprintf("level %d, %s, %s", f.Level, s.rules.Mode(), count(v.Live(), "session"))
	if why := s.degradations(v); len(why) > 0 {
		text += "; degraded: " + why[0]
		if len(why) > 1 {
			text += fmt.Sprintf(" (and %d more)", len(why)-1)
		}
	}
	return instance.StatusField(text)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
