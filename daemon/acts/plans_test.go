//go:build linux

package acts_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestPlan: what a plan says of the root, and of a member that cannot be killed now. testdata/TestActs.golden in daemon/httpapi has what ends do with plans.
func TestPlan(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("user", 100, api.NewSession{Name: "x", GraceMS: daemontest.MS(5000)})
	w.K.Fork(100, 101, "lngtest-a")
	w.K.Fork(101, 102, "lngtest-b")
	w.K.Exit(101, 0)
	w.File(100, "stat", daemontest.StatOf(100, "a", "S", 20))
	w.File(102, "stat", daemontest.StatOf(102, "a", "D", 20))
	w.File(102, "wchan", "nfs_wait")
	p := daemontest.Into[api.Plan](w.Do("user", "POST", "/v1/sessions/x/plan", nil), http.StatusOK)
	if p.Session != s.ID || p.State != "active" || p.Token == "" || len(p.Processes) != 2 || p.RefusedBy != "" {
		t.Fatalf("%+v", p)
	}
	if a := p.Processes[0]; a.PID != 100 || a.Why != "root" || !a.Killable {
		t.Errorf("%+v", a)
	}
	if b := p.Processes[1]; b.PID != 102 || b.Why != "forked by 101 lngtest-a" || b.Killable || !strings.Contains(b.Reason,
		"state D (nfs_wait)") || b.Creator.PID != 101 {
		t.Errorf("%+v", b)
	}
	w.Unsignalled()
}

// TestPlanProtected: a plan shows which member no signal reaches, and cannot be used.
func TestPlanProtected(t *testing.T) {
	w := daemontest.New(t)
	w.Session("user", 100, api.NewSession{Name: "x"})
	w.K.Fork(100, 101, "lngtest-a")
	w.K.Edit(101, func(p *kerneltest.Proc) { p.Flags |= tracer.FlagProtected })
	p := daemontest.Into[api.Plan](w.Do("user", "POST", "/v1/sessions/x/plan", nil), http.StatusOK)
	if p.Token != "" || p.RefusedBy != "pid 101 is protected" || len(p.Processes) != 2 {
		t.Fatalf("%+v", p)
	}
	if root, a := p.Processes[0], p.Processes[1]; !root.Killable || a.Killable || a.Reason != "protected" {
		t.Errorf("%+v, %+v", root, a)
	}
}
