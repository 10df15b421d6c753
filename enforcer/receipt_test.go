//go:build linux

package enforcer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
)

// take gives memory without a bound.
func take(int) bool { return true }

func TestReceipt(t *testing.T) {
	var r Receipt
	for i, f := range []tracer.EntryFlags{0, tracer.FlagTermed, tracer.FlagTermed | tracer.FlagKilled} {
		r.Died(api.Outcome{Ref: ref(tracer.Identity{PID: uint32(i + 1), Start: 5}), Leftover: i > 0}, f, take)
	}
	rep := r.Report(tracer.SessionInfo{Forks: 10, Live: 2, Cause: tracer.CauseEnd}, 0, time.Second, nil)
	if rep.Verdict != "" || rep.Killed != 1 || rep.Started != 11 || rep.Exited != 6 || rep.Left != 2 || rep.DurationMS != 1000 {
		t.Errorf("so far: %+v", rep)
	}
	r.Ending(4) // besides those that are dead
	if rep := r.Report(tracer.SessionInfo{Forks: 10, Live: 2}, 0, time.Second, nil); rep.Exited != 4 || rep.Left != 2 {
		t.Errorf("two deaths are not booked yet: %+v", rep)
	}
	for i, want := range []api.OutcomeKind{api.OutcomeSelf, api.OutcomeTerm, api.OutcomeKill} {
		if o := rep.Processes[i]; o.Outcome != want || o.Leftover != (i > 0) {
			t.Errorf("process %d: %+v", i, o)
		}
	}
	for range maxOutcomes {
		r.Died(api.Outcome{}, tracer.FlagKilled, take)
	}
	res := &Result{Verdict: api.VerdictClean, Info: tracer.SessionInfo{Forks: 10}}
	if rep := r.Report(tracer.SessionInfo{}, 0, 0, res); !rep.Truncated || len(rep.Processes) != maxOutcomes || rep.Counted == nil || rep.Counted.Births != 10 {
		t.Errorf("%d outcomes, truncated %v, counted %+v", len(rep.Processes), rep.Truncated, rep.Counted)
	}
}

// TestReceiptMemory: it takes what it asked for, and no more than it got: without enough
// memory command lines are left out, then processes.
func TestReceiptMemory(t *testing.T) {
	var r Receipt
	left := 20*outcomeSize + 3*memory.ArgvSize(make([]string, 4000)) + outcomeSize/2
	before := left
	for range 30 {
		r.Died(api.Outcome{Comm: "lngtest", Argv: make([]string, 4000)}, 0, func(n int) bool {
			if n > left {
				return false
			}
			left -= n
			return true
		})
	}
	rep := r.Report(tracer.SessionInfo{}, 0, 0, nil)
	if len(rep.Processes) != 20 || len(rep.Processes[2].Argv) != 4000 || rep.Processes[3].Argv != nil || !rep.Truncated {
		t.Errorf("%d processes, truncated %v", len(rep.Processes), rep.Truncated)
	}
	if n := before - left; r.Size() != n || ReportSize(rep) != n {
		t.Errorf("%d bytes and %d bytes, took %d", r.Size(), ReportSize(rep), n)
	}
	if again := Resume(r.Booked()); again.Size() != r.Size() {
		t.Errorf("continued: %d bytes, before %d", again.Size(), r.Size())
	}
}

// TestReceiptText: command lines that members make long are left out once there are too many.
func TestReceiptText(t *testing.T) {
	var r Receipt
	long := []string{strings.Repeat("x", 4094)}
	for range maxOutcomes / 2 {
		r.Died(api.Outcome{Comm: "lngtest", Argv: long}, tracer.FlagKilled, take)
	}
	r = Resume(r.Booked())
	for range maxOutcomes/2 - 1 {
		r.Died(api.Outcome{Comm: "lngtest", Argv: long}, tracer.FlagKilled, take)
	}
	r.Died(api.Outcome{Comm: "lngtest", Argv: []string{"sh"}}, tracer.FlagKilled, take)
	rep := r.Report(tracer.SessionInfo{}, 0, 0, nil)
	size := 0
	for _, p := range rep.Processes {
		size += memory.ArgvSize(p.Argv)
	}
	if len(rep.Processes) != maxOutcomes || rep.Processes[0].Argv == nil || rep.Processes[maxOutcomes-1].Argv == nil || size > maxText {
		t.Errorf("%d processes with %d bytes, first %d, last %v", len(rep.Processes), size, len(rep.Processes[0].Argv), rep.Processes[maxOutcomes-1].Argv)
	}
}

// TestReceiptStorm: what exits on its own without pause does not hide what is ended, also after a restart.
func TestReceiptStorm(t *testing.T) {
	var r Receipt
	for range 2 {
		for range maxOutcomes {
			r.Died(api.Outcome{Comm: "lngtest-self"}, 0, take)
		}
		r.Died(api.Outcome{Comm: "lngtest-ended"}, tracer.FlagTermed, take)
		r = Resume(r.Booked())
	}
	rep := r.Report(tracer.SessionInfo{}, 0, 0, nil)
	ended := slices.DeleteFunc(slices.Clone(rep.Processes), func(o api.Outcome) bool { return o.Outcome != api.OutcomeTerm })
	if len(ended) != 2 || len(rep.Processes) != maxSelf+2 || !rep.Truncated {
		t.Errorf("%d processes, %v ended, truncated %v", len(rep.Processes), ended, rep.Truncated)
	}
}

// TestResumeTruncated: a receipt that left something out before a restart says so after it.
func TestResumeTruncated(t *testing.T) {
	for _, truncated := range []bool{false, true} {
		r := Resume(Booked{Outcomes: []api.Outcome{{}}, Truncated: truncated})
		if got := r.Booked(); got.Truncated != truncated || len(got.Outcomes) != 1 {
			t.Errorf("truncated %v: %+v", truncated, got)
		}
	}
}

// TestReceiptKiller: who killed a member is in its outcome, and counts for the bound.
func TestReceiptKiller(t *testing.T) {
	var r Receipt
	by := &api.Sender{Signal: "SIGTERM", Kind: "process", Process: &api.Process{Comm: "pkill", Session: "x"}}
	taken := 0
	r.Died(api.Outcome{Killer: by}, 0, func(n int) bool { taken += n; return true })
	if r.outcomes[0].Killer != by || taken != r.Size() || taken <= outcomeSize {
		t.Errorf("%+v, %d bytes", r.outcomes, taken)
	}
	if again := Resume(r.Booked()); again.Size() != r.Size() {
		t.Errorf("continued: %d bytes, before %d", again.Size(), r.Size())
	}
	r.Died(api.Outcome{Killer: by}, 0, func(n int) bool { return n == outcomeSize })
	if r.outcomes[1].Killer != nil {
		t.Error("it is kept without room")
	}
}
