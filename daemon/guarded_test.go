//go:build linux

package daemon_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
)

// TestGuardedRoot: no session is opened over an ancestor of the daemon.
func TestGuardedRoot(t *testing.T) {
	w := newWorld(t)
	w.Add(150, daemontest.Root, 0, "lngtest-login")
	w.Under(150)
	for _, adopt := range []bool{false, true} {
		w.Do("root", "POST", "/v1/sessions", api.NewSession{Adopt: adopt, Root: api.Ref{PID: 150}}).Refused(api.CodeGuarded)
	}
}

// TestGuardedAgents: a running process does not become an agent's root if the daemon
// descends from it, or a protect rule names it.
func TestGuardedAgents(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy(""))
	for pid := uint32(300); pid < 303; pid++ {
		p.Add(pid, daemontest.Shell, 1000, "lngtest-agent")
	}
	os.Remove(p.Host.Proc.Path(301, "exe"))
	if err := os.Symlink("/bin/lngtest-kept", p.Host.Proc.Path(301, "exe")); err != nil {
		t.Fatal(err)
	}
	p.Under(300)
	p.WritePolicy("protect:\n  - {name: kept, match: {exe: /bin/lngtest-kept}, reason: r}\n" +
		"agents:\n  - {name: lngtest, enabled: true, match: {comm: lngtest-agent}}\n")
	daemontest.Into[api.Policy](p.Do("root", "POST", "/v1/policy/reload", nil), http.StatusOK)
	p.Until(func() bool { return p.K.Proc(302).Session != 0 }) // the youngest, and the last
	for _, pid := range []uint32{300, 301} {
		if p.K.Proc(pid).Session != 0 {
			t.Errorf("%d is in a session", pid)
		}
	}
}

// TestOrphansAccess: without a session named, each caller sees what that caller may
// read.
func TestOrphansAccess(t *testing.T) {
	w := newWorld(t)
	w.Session("user", 40, api.NewSession{})
	w.Session("else", 50, api.NewSession{})
	w.Session("root", 60, api.NewSession{})
	for _, root := range []uint32{40, 50, 60} {
		w.K.Fork(root, root+1, "lngtest-gone")
		w.K.Fork(root+1, root+2, "lngtest-orphan")
		w.K.Exit(root+1, 0)
	}
	for who, want := range map[string][]int{
		"root": {42, 52, 62}, "reader": {42, 52, 62}, "user": {42}, "else": {52}, "40": {42}, "60": {62},
	} {
		var got []int
		for _, o := range daemontest.Into[api.Orphans](w.Do(who, "GET", "/v1/orphans", nil), http.StatusOK).Items {
			got = append(got, o.PID)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s is told of %s, want %s", who, fmt.Sprint(got), fmt.Sprint(want))
		}
	}
}
