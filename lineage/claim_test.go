package lineage

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// A claim about a process also holds for its descendants, in any order of events; but not for
// its creator, its siblings, and processes that have a claim of their own.
func TestClaim(t *testing.T) {
	calls := &Claim{Calls: []*Call{{ID: "toolu_1"}}}
	whole := &Claim{Calls: calls.Calls, Trace: Trace{ID: [16]byte{1}, From: id(30)}}
	inner := &Claim{Trace: Trace{ID: [16]byte{2}, From: id(50)}}
	claimed := func(pid uint32, c *Claim) Event { return Event{Type: Claimed, ID: id(pid), Claim: c} }
	child := fork(30, 20, 300)
	child.Claim = calls
	events := []Event{root(20, 10, 1, 200), child, claimed(30, whole), fork(40, 30, 400), fork(50, 40, 500), claimed(50, inner), fork(60, 50, 600)}
	want := map[uint32]*Claim{20: nil, 25: nil, 30: whole, 40: whole, 50: inner, 60: inner}
	n := 0
	permute(events, func(order []Event) {
		order = slices.Insert(slices.Clone(order), n%(len(order)+1), fork(25, 20, 250)) // all orders of eight take eight times as long
		n++
		g := graph(order...)
		for pid, c := range want {
			if got, _ := g.Claim(id(pid)); got != c {
				t.Fatalf("of %d: %+v, want %+v; order %v", pid, got, c, order)
			}
		}
	})
	require.Equal(t, n, 5040)
}

// A call knows what its processes used when they had exited: each once, also after a restart, and none that
// another call may have started. What one daemon has not written, another copy of the call may know.
func TestUsed(t *testing.T) {
	one := &Call{ID: "one"}
	child, both := fork(30, 20, 300), fork(31, 20, 310)
	child.Claim, both.Claim = &Claim{Calls: []*Call{one}}, &Claim{Calls: []*Call{one, {ID: "two"}}}
	big := exit(40, 500)
	big.CPUTime, big.MaxRSS = 7, 9
	g := graph(root(20, 10, 1, 200), child, both, fork(40, 30, 400), fork(41, 30, 410), fork(42, 30, 420), execs(40, 450, "cc1"),
		exit(30, 460), exit(31, 470), big, big, exit(41, 510), reaped(42, 520))
	want := Used{Processes: 3, CPUTime: 17, MaxRSS: 9, Comm: CommOf("cc1")}
	equal(t, "used", one.Used(), want)
	doc, err := json.Marshal(one)
	require.NoError(t, err)
	back, again := new(Call), New(Options{})
	require.NoError(t, json.Unmarshal(doc, back))
	for _, pid := range []uint32{20, 30, 40, 41} {
		n, _ := g.Node(id(pid))
		if n.Claim != nil {
			n.Claim = &Claim{Calls: []*Call{back}}
		}
		again.Restore(&n)
	}
	equal(t, "restored", back.Used(), want)
	late := fork(43, 30, 600)
	again.Apply(&late)
	late = exit(43, 610)
	again.Apply(&late)
	one.Learn(back)
	back.Learn(&Call{})
	want.Processes, want.CPUTime = 4, 22
	equal(t, "learned", one.Used(), want)
	equal(t, "kept", back.Used(), want)
}

// A claim outlives the daemon with its process, and the end of a call with the claim.
func TestClaimIsRestored(t *testing.T) {
	call := &Call{ID: "toolu_1", Tool: "Bash", Agent: id(20), Began: 250}
	child := fork(30, 20, 300)
	child.Claim = &Claim{Calls: []*Call{call}, Trace: Trace{ID: [16]byte{1}, Span: [8]byte{2}, Sampled: true, From: id(30)}}
	g := graph(root(20, 10, 1, 200), child, fork(40, 30, 400))
	call.End(450)
	again := New(Options{})
	for _, pid := range []uint32{40, 20, 30} {
		n, _ := g.Node(id(pid))
		doc, err := json.Marshal(n)
		require.NoError(t, err)
		back := Node{ID: n.ID, Session: n.Session}
		require.NoError(t, json.Unmarshal(doc, &back))
		again.Restore(&back)
	}
	for _, pid := range []uint32{30, 40} {
		c, creator := again.Claim(id(pid))
		if c == nil || c.Trace != child.Claim.Trace || len(c.Calls) != 1 || c.Calls[0].Tool != "Bash" || c.Calls[0].Agent != id(20) || c.Calls[0].Ended() != 450 ||
			creator != id(pid-10) {
			t.Errorf("%d: %+v", pid, c)
		}
	}
	if c, _ := again.Claim(id(20)); c != nil {
		t.Errorf("the creator: %+v", c)
	}
}

// A reader of the changes sees every process that a claim is about.
func TestClaimIsAChange(t *testing.T) {
	g := graph(root(20, 10, 1, 200), fork(30, 20, 300), fork(40, 30, 400), fork(25, 20, 250))
	var c Changes
	g.Track(true)
	g.Take(10, &c)
	g.Apply(&Event{Type: Claimed, ID: id(30), Claim: &Claim{Trace: Trace{ID: [16]byte{1}}}})
	g.Take(10, &c)
	slices.SortFunc(c.Changed, ID.compare)
	if !slices.Equal(c.Changed, []ID{id(30), id(40)}) {
		t.Error(c.Changed)
	}
}
