//go:build linux

package enforcer

import (
	"strings"
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

// TestReceiptText: command lines that members make long are left out once there are too many.
func TestReceiptText(t *testing.T) {
	var r Receipt
	long := []string{strings.Repeat("x", 4094)}
	for range maxOutcomes / 2 {
		r.Died(Death{Comm: "lngtest", Argv: long})
	}
	r = Resume(r.Booked())
	for range maxOutcomes/2 - 1 {
		r.Died(Death{Comm: "lngtest", Argv: long})
	}
	r.Died(Death{Comm: "lngtest", Argv: []string{"sh"}})
	rep := r.Report(tracer.SessionInfo{}, 0, nil)
	size := 0
	for _, p := range rep.Processes {
		size += textSize(p.Argv)
	}
	if len(rep.Processes) != maxOutcomes || rep.Processes[0].Argv == nil || rep.Processes[maxOutcomes-1].Argv == nil || size > maxText {
		t.Errorf("%d processes with %d bytes, first %d, last %v", len(rep.Processes), size, len(rep.Processes[0].Argv), rep.Processes[maxOutcomes-1].Argv)
	}
}
