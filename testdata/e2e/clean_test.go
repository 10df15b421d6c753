//go:build linux

package e2e

import (
	"errors"
	"os"
	"testing"
)

// An ephemeral daemon leaves when nobody needs it, and takes its pins along.
func TestHold9NothingLeft(t *testing.T) {
	i := newInstance(t)
	if p := i.must("run", "--", "true"); p.stdout.Len()+p.stderr.Len() != 0 {
		t.Errorf("run true is silent: %v", p)
	}
	v := i.version()
	if v == nil || !v.Ephemeral {
		t.Fatalf("run started no ephemeral daemon: %+v", v)
	}
	// Not asked over the socket: every client keeps it alive.
	i.until("exit of the ephemeral daemon", func() bool { return status(v.PID, "Pid") == "" })
	for _, path := range []string{i.pins(), i.socket} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left (%v)", path, err)
		}
	}
}
