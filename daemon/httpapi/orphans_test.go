//go:build linux

package httpapi_test

import (
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Orphans, leftovers and zombies, each with its reason, and the process that has to reap it.
func TestOrphans(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 40, api.NewSession{Name: "lngtest", OnRootExit: "report"})
	w.K.Fork(40, 50, "lngtest-middle")
	w.K.Fork(50, 51, "lngtest-orphan")
	w.K.Exit(50, 0)
	for pid, stat := range map[uint32]string{60: daemontest.StatOf(60, "a", "Z", 40), 61: "", 62: daemontest.StatOf(62, "a", "R", 40)} {
		w.K.Fork(40, pid, "lngtest-zombie")
		if stat != "" { // else it was reaped, which was not reported yet; 62 is being torn down
			w.Proc(pid, 40, 1000, "lngtest-zombie")
			require.NoError(t, os.WriteFile(w.Host.Proc.Path(pid, "stat"), []byte(stat), 0o600))
		}
		w.K.Edit(pid, func(p *kerneltest.Proc) { p.Unreaped = true })
		w.K.Exit(pid, 0)
	}
	w.Look()
	items := func(who string) map[int]api.Orphan {
		m := map[int]api.Orphan{}
		d := daemontest.Get[api.Orphans](w, who, "/v1/orphans?session=lngtest")
		for _, o := range d.Items {
			if o.Kind != "orphan" || o.Session != s.ID || o.SessionName != "lngtest" {
				t.Errorf("%+v", o)
			}
			m[o.PID] = o
		}
		return m
	}
	got := items("user")
	if len(got) != 2 || got[51].Why != api.WhyOrphan || got[60].Why != api.WhyZombie {
		t.Fatalf("%+v", got)
	}
	if r := got[60].Reaper; r == nil || r.PID != 40 || r.StartNS == 0 || r.Comm != "lngtest-root" || r.Session != s.ID {
		t.Errorf("reaper %+v", r)
	}
	states := make(map[int]api.ProcessState)
	for _, n := range daemontest.Get[api.Tree](w, "user", "/v1/sessions/lngtest/tree").Nodes {
		states[n.PID] = n.State
	}
	if states[60] != api.StateZombie || states[61] != api.StateExited || states[62] != api.StateExited {
		t.Errorf("%v", states)
	}
	w.K.Edit(40, func(p *kerneltest.Proc) { p.Unreaped = false })
	w.K.Exit(40, 0)
	w.Look()
	if got = items("user"); got[51].Why != api.WhyLeftover {
		t.Errorf("%+v", got)
	}
	if s := daemontest.Get[api.Session](w, "user", "/v1/sessions/lngtest"); s.Leftovers != 1 {
		t.Errorf("%+v", s)
	}
}
