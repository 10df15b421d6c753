//go:build linux

package enforcer

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestReceipt(t *testing.T) {
	var r Receipt
	for i, f := range []tracer.EntryFlags{0, tracer.FlagTermed, tracer.FlagTermed | tracer.FlagKilled} {
		r.Died(Death{ID: tracer.Identity{PID: uint32(i + 1), Start: 5}, Flags: f, Leftover: i > 0})
	}
	rep := r.Report(tracer.SessionInfo{Forks: 10, Live: 2, Cause: tracer.CauseEnd}, time.Second, nil)
	if rep.Verdict != "" || rep.Killed != 1 || rep.Started != 11 || rep.Exited != 6 || rep.DurationMS != 1000 {
		t.Errorf("so far: %+v", rep)
	}
	for i, want := range []api.OutcomeKind{api.OutcomeSelf, api.OutcomeTerm, api.OutcomeKill} {
		if o := rep.Processes[i]; o.Outcome != want || o.Leftover != (i > 0) {
			t.Errorf("process %d: %+v", i, o)
		}
	}
	for range maxOutcomes {
		r.Died(Death{})
	}
	if rep := r.Report(tracer.SessionInfo{}, 0, &Result{Verdict: api.VerdictClean}); !rep.Truncated || len(rep.Processes) != maxOutcomes {
		t.Errorf("%d outcomes, truncated %v", len(rep.Processes), rep.Truncated)
	}
}
