//go:build linux

package daemon

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-systemd/v22/activation"
	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
)

// statusPeriod is how often a service manager is told how we are.
const statusPeriod = 10 * time.Second

// manager is the service manager that started us, as systemd does: it is told
// how we are (sd_notify(3)), may have made the socket, and starts us again when
// we die. The zero value is none.
type manager struct {
	there    bool
	watchdog time.Duration // it ends us if it hears nothing for so long; 0: it waits for ever
	sockets  []*os.File
	log      zerolog.Logger
}

// theManager takes what a service manager left in the environment. What is
// there when a command started us is the command's.
func theManager(ready *readiness) (*manager, error) {
	if ready != nil {
		for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
			os.Unsetenv(name)
		}
		return &manager{log: zerolog.Nop()}, nil
	}
	m := &manager{sockets: activation.Files(true), log: zerolog.Nop()}
	m.there = os.Getenv("NOTIFY_SOCKET") != "" || len(m.sockets) > 0
	var err error
	if m.watchdog, err = sd.SdWatchdogEnabled(true); err != nil {
		return m, fmt.Errorf("read the service manager's watchdog: %w", err)
	}
	return m, nil
}

// notify sends fields to the manager. One that does not listen any more gets
// no more.
func (m *manager) notify(fields ...string) {
	if !m.there {
		return
	}
	if _, err := sd.SdNotify(false, strings.Join(fields, "\n")); err != nil {
		m.log.Error().Err(err).Msg("service manager not told")
	}
}

// statusField is the line that `systemctl status` shows. Fields are lines:
// none can be made up in the text.
func statusField(text string) string {
	return "STATUS=" + strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

const (
	managerReady    = "READY=1"
	managerStopping = "STOPPING=1"
	managerAlive    = "WATCHDOG=1"
)

// reloading is what the manager is told before the policy is read again; it
// takes us as reloading until it is told that we are ready.
func reloading() []string {
	return []string{"RELOADING=1", strings.TrimSpace(sd.SdNotifyMonotonicUsec())}
}

// tellManager keeps the manager informed. That we live is said from the
// owner's goroutine, which does everything that matters: one that is stuck
// misses it.
func (s *server) tellManager(ctx context.Context, m *manager) {
	if !m.there {
		return
	}
	period := statusPeriod
	if m.watchdog > 0 {
		period = min(period, m.watchdog/3)
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		if err := s.owner.do(func() { m.notify(managerAlive, s.statusLine()) }); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// statusLine says in one line how we are. It is called by the owner.
func (s *server) statusLine() string {
	f := s.kernel.Features()
	text := fmt.Sprintf("level %d, %s, %s", f.Level, s.rules.mode(), count(s.owner.live(), "session"))
	if why := s.degradations(); len(why) > 0 {
		text += "; degraded: " + why[0]
		if len(why) > 1 {
			text += fmt.Sprintf(" (and %d more)", len(why)-1)
		}
	}
	return statusField(text)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
