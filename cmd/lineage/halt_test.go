package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestHaltCommand: wrong flags and a missing yes change nothing; a halt waits for receipts, and a session that was spared is an error.
func TestHaltCommand(t *testing.T) {
	f := newFake()
	for _, reason := range []string{" ", strings.Repeat("r", api.MaxHaltReason+1)} {
		if code, _, stderr := newWorld(t, f).run("halt", "--yes", "--reason", reason); code != api.ExitUsage || strings.Count(stderr, "\n") != 1 {
			t.Errorf("exit %d, %s", code, stderr)
		}
	}
	w := newWorld(t, f)
	shown := w.terminal("n\n")
	if code, _, _ := w.run("halt", "--reason", "r"); code != api.ExitFailed || !strings.Contains(shown(), "Halt this host?") {
		t.Errorf("exit %d after no", code)
	}
	require.Equal(t, len(f.Got.Halts), 0)
	f.Has.Halted = &api.Halted{
		Halt:  &api.Halt{Mode: api.ModeHalt, Reason: "case 7"},
		Items: []api.HaltedSession{{ID: "k3x9q2"}, {ID: "q1w2e3", Refused: "pid 1 is the daemon"}},
	}
	code, out, stderr := newWorld(t, f).run("halt", "--reason", "case 7", "--yes")
	if code != api.ExitDenied || !strings.Contains(out, "k3x9q2") || !strings.Contains(stderr, "q1w2e3 is not ended: pid 1 is the daemon") ||
		!strings.Contains(stderr, `case 7; known agents die at their exec until "lineage halt --off"`) {
		t.Errorf("exit %d, %s%s", code, out, stderr)
	}
	require.Equal(t, fmt.Sprint(f.Got.Halts), "[{halt case 7 [] true}]")
}
