//go:build linux

package rules_test

import (
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

const breakerRules = `mode: enforce
breaker: {ends_per_minute: 2}
agents:
  - {name: lngtest, enabled: true, match: {comm: lngtest-agent}, grace: 0s, max_processes: 40, max_lifetime: 1h}
`

// agent opens a session by the rule, over a process of a user.
func (p *world) agent(pid, uid uint32) tracer.SessionInfo {
	p.Helper()
	p.Add(pid, daemontest.Shell, uid, "lngtest-sh")
	return p.held(p.becomes(pid, daemontest.Shell, uid, "lngtest-agent"))
}

// TestBreakerOfRules: what the kernel ends by a rule is counted by user, once, by the receipt. At the
// limit the sessions of this user lose the limits of the rule, and those of others keep theirs.
func TestBreakerOfRules(t *testing.T) {
	p := newWorld(t, daemontest.WithPolicy(breakerRules))
	mine, others, roots := p.agent(100, 1000), p.agent(110, 1001), p.agent(120, 0)
	limited := func(id tracer.SessionID) bool {
		info, err := p.K.Session(id)
		require.NoError(t, err)
		return info.MaxProcesses == 40 && !info.KeepOnRootExit
	}
	// A root that leaves no process behind does not count, however often.
	for n := range uint32(5) {
		s := p.agent(200+n, 1000)
		p.K.Exit(200+n, 0)
		if r := p.Receipt(s.ID.String()); r.EndReason != "root_exit" || len(r.Processes) != 0 {
			t.Fatalf("%+v", r)
		}
	}
	if b := p.Status().Breaker; b.Open || !limited(mine.ID) {
		t.Fatalf("%+v: roots that left no process behind are counted", b)
	}
	for n := range uint32(3) {
		s := p.agent(300+10*n, 1000)
		p.K.Fork(300+10*n, 301+10*n, "lngtest-child")
		if n == 0 {
			p.K.Exit(300, 0)
		} else if err := p.K.End(s.ID, tracer.CauseMaxProcesses, 0); err != nil {
			t.Fatal(err)
		}
		if r := p.Receipt(s.ID.String()); r.Verdict != "clean" || r.Killed == 0 {
			t.Fatalf("%+v", r)
		}
		if b := p.Status().Breaker; b.Open != (n == 2) {
			t.Fatalf("%+v after %d ends", b, n+1)
		}
	}
	p.Until(func() bool { return !limited(mine.ID) })
	if b := p.Status().Breaker; !slices.Equal(b.UIDs, []int{1000}) {
		t.Errorf("%+v", b)
	}
	if !limited(others.ID) || !limited(roots.ID) {
		t.Error("sessions of other users lost the limits of the rule")
	}
	for id, want := range map[tracer.SessionID]string{mine.ID: "observe", others.ID: "enforce", roots.ID: "enforce"} {
		if s := daemontest.Get[api.Session](p, "root", "/v1/sessions/"+id.String()); s.Mode != want {
			t.Errorf("session of uid %d: mode %s", s.UID, s.Mode)
		}
	}
	// New ones too.
	if s := p.agent(400, 1000); s.MaxProcesses != 0 || !s.KeepOnRootExit {
		t.Errorf("%+v", s)
	}
	if s := p.agent(410, 1001); s.MaxProcesses != 40 || s.KeepOnRootExit {
		t.Errorf("%+v", s)
	}
	p.Do("root", "POST", "/v1/policy/resume", nil)
	if !limited(mine.ID) || p.Status().Breaker.Open {
		t.Error("the limits are not back")
	}
}
