//go:build linux

package registry

import (
	"runtime"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// dies books deaths of members that ran command lines of 4,000 empty arguments.
func dies(o *Registry, s *Session, deaths int) {
	for range deaths {
		s.receipt.Died(api.Outcome{Comm: "lngtest", Argv: make([]string, 4000)}, 0, func(n int) bool { return o.ended.Take(s.info.UID, n) })
	}
}

// TestReceiptsAreBounded: all receipts together have a bound in bytes, of live sessions and of
// those that have ended. A user who fills it loses own receipts, and no other user's.
func TestReceiptsAreBounded(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	o, k := newRegistry(t)
	before := heap()
	other := sessionOf(t, o, k, 100, 1001)
	dies(o, other, 5)
	over(o, other)
	var all []*Session
	for i := range 60 {
		s := sessionOf(t, o, k, uint32(200+i), 1000)
		dies(o, s, 30)
		all = append(all, s)
		if i%2 == 0 {
			over(o, s)
		}
	}
	late := sessionOf(t, o, k, 300, 1001)
	dies(o, late, 5)
	// What tests before this one have left running also allocates.
	require.Eventually(t, "bounded heap", func() bool { return heap() <= before+2*maxReceipts })
	if o.sessions[other.info.ID] == nil || len(other.report.Processes[4].Argv) != 4000 {
		t.Error("the receipt of another user is gone")
	}
	if rep := late.receipt.Report(late.info, 0, 0, nil); rep.Truncated || rep.Processes[4].Argv == nil {
		t.Errorf("the receipt of another user is not whole: %+v", rep)
	}
	for i, s := range all {
		if i%2 != 0 {
			over(o, s)
		}
	}
	over(o, late)
	if o.sessions[late.info.ID] == nil || o.sessions[other.info.ID] == nil || o.sessions[all[59].info.ID] == nil || o.sessions[all[0].info.ID] != nil {
		t.Error("not the oldest receipts of the user with the most are gone")
	}
}

// TestNotLeft: a session that became empty after the verdict that some are left has no receipt that says so, and what died
// before its root is not a leftover.
func TestNotLeft(t *testing.T) {
	o, k := newRegistry(t)
	s := session(t, o, k, 100)
	k.Fork(100, 101, "lngtest-member")
	s.rootDied = 5
	o.died(s, &tracer.Event{Process: k.Proc(101).Identity, Time: 4})
	s.info.State, s.emptyAt = tracer.StateEmpty, 6
	s.result = &enforcer.Result{Session: s.info.ID, Verdict: api.VerdictLeft}
	o.conclude(s)
	if r := s.receipt.Report(s.info, 0, 0, nil); s.report != nil || len(r.Processes) != 0 {
		t.Errorf("%+v, %+v", s.report, r)
	}
}
