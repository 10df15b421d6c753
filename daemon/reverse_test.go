//go:build linux

package daemon_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

// TestHooksInReverse: the tests of the rooms whose features attach hooks pass with the hooks attached in
// reverse, because no feature depends on the order. Tests of a real kernel and of time say nothing about it.
func TestHooksInReverse(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("without go the tests of other packages cannot be run")
	}
	cmd := exec.CommandContext(t.Context(), tool, "test", "-count=1", "-vet=off", "-skip=Real|Dead|Crowd|Slow|Fuzz", "./attribution", "./branch",
		"./history", "./holdings", "./leaks", "./marks", "./plan", "./rules", "./stream", "./watch")
	cmd.Env = append(os.Environ(), daemontest.Reverse+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
