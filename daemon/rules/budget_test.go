//go:build linux

package rules

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestBudgetNested: a member does not leave the limits of its session by opening one inside it,
// and what is done there is work of the session.
func TestBudgetNested(t *testing.T) {
	const mib = 1 << 20
	h := newHost(t, "")
	k, r, s, open := h.k, h.o.Registry, h.Steward, h.open
	k.Add(100, 1, "lngtest-root")
	open(100, tracer.SessionSpec{MaxRSS: 64 * mib, Idle: 10 * time.Second})
	k.Fork(100, 102, "lngtest-inner")
	open(102, tracer.SessionSpec{})
	look := func(rss uint64, cpu time.Duration) (over []Excess) {
		k.Advance(6 * time.Second)
		k.Edit(102, func(p *kerneltest.Proc) { p.RSS, p.CPUTime = rss, uint64(cpu) })
		if _, err := r.Resync(registry.CauseRequest); err != nil {
			t.Fatal(err)
		}
		if err := r.Read(func(v registry.View) { over = s.overBudget(v, policy.Default()) }); err != nil {
			t.Fatal(err)
		}
		return over
	}
	for n := range 4 {
		if over := look(mib, time.Duration(n)*5*time.Second); len(over) > 0 {
			t.Errorf("look %d: %v", n, over[0].Cause)
		}
	}
	if over := look(65*mib, 30*time.Second); len(over) != 1 || over[0].Cause != tracer.CauseMaxRSS {
		t.Errorf("over its limit: %+v", over)
	}
}
