//go:build linux

package e2e

import (
	"errors"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
)

// An ephemeral daemon exits when it is not needed, and removes its pins.
func TestHold9NothingLeft(t *testing.T) {
	i := stage.New(t)
	i.Daemon("--ephemeral=3s")
	if p := i.Must("run", "--", "true"); p.Out.Len()+p.Err.Len() != 0 {
		t.Errorf("run true is silent: %v", p)
	}
	v := i.Version()
	if v == nil || !v.Ephemeral {
		t.Fatalf("no ephemeral daemon: %+v", v)
	}
	// Do not ask over the socket: every client keeps it alive.
	i.Until("exit of the ephemeral daemon", func() bool { return stage.ProcStatus(v.PID, "Pid") == "" })
	for _, path := range []string{i.Pins(), i.Socket} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left (%v)", path, err)
		}
	}
}
