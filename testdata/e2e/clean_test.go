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
	i.until("end of the ephemeral daemon", func() bool { return i.version() == nil })
	i.until("removal of its pins and socket", func() bool {
		_, pins := os.Stat(i.pins())
		_, socket := os.Stat(i.socket)
		return errors.Is(pins, os.ErrNotExist) && errors.Is(socket, os.ErrNotExist)
	})
	i.until("exit of its process", func() bool { return status(v.PID, "Pid") == "" })
}
