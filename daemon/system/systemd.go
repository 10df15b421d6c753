//go:build linux

package system

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-systemd/v22/activation"
	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
)

// Manager is the service manager that started the daemon, such as systemd. It gets
// the daemon's status (sd_notify(3)), may have made the socket, and restarts the
// daemon when it dies. The zero value is none.
type Manager struct {
	Present  bool
	Watchdog time.Duration // it kills a daemon that reports nothing for this long; 0: never
	Sockets  []*os.File
	Log      zerolog.Logger
}

// TheManager takes what a service manager left in the environment. If a command
// started the daemon, these variables are meant for the command.
func TheManager(ready *StartPipe) (*Manager, error) {
	if ready != nil {
		for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
			os.Unsetenv(name)
		}
		return &Manager{Log: zerolog.Nop()}, nil
	}
	m := &Manager{Sockets: activation.Files(true), Log: zerolog.Nop()}
	m.Present = os.Getenv("NOTIFY_SOCKET") != "" || len(m.Sockets) > 0
	var err error
	if m.Watchdog, err = sd.SdWatchdogEnabled(true); err != nil {
		return m, fmt.Errorf("read the service manager's watchdog: %w", err)
	}
	return m, nil
}

// Notify sends fields to the manager, if there is one.
func (m *Manager) Notify(fields ...string) {
	if !m.Present {
		return
	}
	if _, err := sd.SdNotify(false, strings.Join(fields, "\n")); err != nil {
		m.Log.Error().Err(err).Msg("service manager not notified")
	}
}

// StatusField is the line that `systemctl status` shows. Each field is a line, so
// control characters in the text are removed.
func StatusField(text string) string {
	return "STATUS=" + strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// Fields of [Manager.Notify].
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Alive    = "WATCHDOG=1"
)

// Reloading are the fields to send before the policy is read again; [Ready] ends
// the reload.
func Reloading() []string {
	return []string{"RELOADING=1", strings.TrimSpace(sd.SdNotifyMonotonicUsec())}
}
