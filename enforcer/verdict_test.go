//go:build linux

package enforcer

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestStillExiting: who is counted as dead may be on the task list for a moment.
// One that is alive, or stays, is no proof.
func TestStillExiting(t *testing.T) {
	for name, c := range map[string]struct {
		dead, goes bool
		verdict    api.Verdict
		within     time.Duration
	}{
		"it goes":     {true, true, api.VerdictClean, exitPause},
		"it stays":    {true, false, api.VerdictUnknown, exitPause + maxPause},
		"it is alive": {false, false, api.VerdictUnknown, maxPause},
	} {
		t.Run(name, func(t *testing.T) {
			k, e, id := host(t)
			k.Add(50, 1, "late")
			k.Edit(50, func(p *kerneltest.Proc) { p.Session, p.Dead, p.Stubborn = id, c.dead, true })
			begin := k.Now()
			if err := e.End(id, tracer.CauseEnd, 0); err != nil {
				t.Fatal(err)
			}
			_, over := e.Step()
			if c.dead && len(over) > 0 {
				t.Fatalf("a verdict at once: %+v", over)
			}
			if c.goes {
				k.Reap(50)
			}
			if len(over) == 0 {
				over = settle(t, k, e)
			}
			if r := one(t, over); r.Verdict != c.verdict || k.Now()-begin > c.within {
				t.Errorf("after %v: %+v", k.Now()-begin, r)
			}
		})
	}
}
