//go:build linux

package rules_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

// TestGuardedAgents: a running process does not become an agent's root if the daemon
// descends from it, or a protect rule names it.
func TestGuardedAgents(t *testing.T) {
	p := daemontest.New(t, daemontest.WithPolicy(""))
	for pid := uint32(300); pid < 303; pid++ {
		p.Add(pid, daemontest.Shell, 1000, "lngtest-agent")
	}
	p.Exe(301, "/bin/lngtest-kept")
	p.Under(300)
	p.Reload("protect:\n  - {name: kept, match: {exe: /bin/lngtest-kept}, reason: r}\n" +
		"agents:\n  - {name: lngtest, enabled: true, match: {comm: lngtest-agent}}\n")
	p.Until(func() bool { return p.K.Proc(302).Session != 0 }) // the youngest, and the last
	for _, pid := range []uint32{300, 301} {
		if p.K.Proc(pid).Session != 0 {
			t.Errorf("%d is in a session", pid)
		}
	}
}
