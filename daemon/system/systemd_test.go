//go:build linux

package system

import (
	"os"
	"path/filepath"
	"testing"
)

// The variables in the environment of a command that starts the daemon are meant
// for the command.
func TestManagerOfACommand(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "1000000")
	t.Setenv("LISTEN_FDS", "1")
	m, err := TheManager(&StartPipe{})
	if err != nil || m.Present || m.Watchdog != 0 || len(m.Sockets) != 0 {
		t.Errorf("%+v %v", m, err)
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS"} {
		if v, ok := os.LookupEnv(name); ok {
			t.Errorf("%s=%s is left", name, v)
		}
	}
}

func TestInvalidWatchdog(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "soon")
	if _, err := TheManager(nil); err == nil {
		t.Error("an invalid duration was accepted")
	}
}
