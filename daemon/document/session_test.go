package document

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

func TestSession(t *testing.T) {
	e := family()
	s := Session{
		Info:  tracer.SessionInfo{ID: session, Root: id(100), Live: 2, Forks: 2, Deadline: 1, Created: 1},
		State: "ending", Family: []tracer.SessionID{session}, Ports: []int{80}, Used: Used{RSS: 9}, LeftOver: true, Deadline: 60,
	}
	d := e.Session(&s, user(6))
	if d.State != "ending" || d.Orphans != 1 || d.Leftovers != 2 || d.RSSBytes != 9 || len(d.Ports) != 1 || !d.Deadline.Equal(zero.Add(60)) || d.Root.Comm != "agent" ||
		d.Root.Argv != nil ||
		d.Owner != nil {
		t.Errorf("%+v", d)
	}
	s.Ended, s.Verdict = 70, "clean"
	d = e.Session(&s, user(6))
	if !d.Ended.Equal(zero.Add(70)) || d.Verdict != "clean" || d.Ports != nil || d.RSSBytes != 0 || d.Deadline != nil || d.Leftovers != 0 {
		t.Errorf("over: %+v", d)
	}
	s.Info.Root = id(999)
	if d = e.Session(&s, everyone{}); d.Root == nil || d.Root.PID != 999 || d.Root.Comm != "" {
		t.Errorf("%+v", d.Root)
	}
}

// TestDeath: after the root failed, the last member is named that died of the signal in its exit
// code, else one that the OOM killer or an outsider killed; and whether it is known of all.
func TestDeath(t *testing.T) {
	const inner = session + 1<<32
	for _, c := range []struct {
		status uint32 // of the root
		by     lineage.Sender
		from   tracer.SessionID
		at     uint64
		after  int
	}{
		{0, lineage.ByOOM, 0, 2000, 102},
		{0, lineage.ByCgroupKill, 0, 2000, 0},
		{9, lineage.ByOOM, 0, 2000, 0},
		{1 << 8, lineage.ByOOM, 0, 2000, 102},
		{1 << 8, lineage.ByCgroupKill, 0, 2000, 102},
		{1 << 8, lineage.ByProcess, inner, 2000, 0},
		{1 << 8, lineage.ByKernel, 0, 2000, 0},
		{137 << 8, lineage.ByKernel, 0, 2000, 102},
		{137 << 8, lineage.ByOOM, 0, 9000, 101}, // it died later
		{137 << 8, lineage.ByOOM, 0, 1500, 102},
		{143 << 8, lineage.ByOOM, 0, 2000, 0},
	} {
		e := family()
		s := Session{Info: tracer.SessionInfo{ID: session, Root: id(100), Forks: 2}}
		s.Family = []tracer.SessionID{session, inner}
		require.Equal(t, e.Death(&s, false) == nil, true)
		exit := lineage.Event{Type: lineage.Exit, Time: c.at, ID: id(102), Session: inner, Status: 9}
		exit.Signal = &lineage.Signal{Number: 9, Sender: c.by, By: id(7), Session: c.from}
		e.Graph.Apply(&exit)
		e.Graph.Apply(&lineage.Event{Type: lineage.Exit, Time: 5000, ID: id(100), Session: session, Status: c.status})
		d, after := e.Death(&s, false), 0
		if d.After != nil {
			after = d.After.PID
		}
		if d.Comm != "agent" || after != c.after || d.Whole != (c.status > 255) {
			t.Errorf("%#x: %+v after %d, want %d", c.status, d, after, c.after)
		}
		lost := e.Death(&s, true)
		s.Info.Forks++
		require.Equal(t, lost.Whole || e.Death(&s, false).Whole, false)
	}
}

// TestRootBegan: a session keeps the command that its root began it with, when the root has become
// another program.
func TestRootBegan(t *testing.T) {
	run := func(e Encoder, time uint64, argv string) {
		e.Graph.Apply(&lineage.Event{Type: lineage.Exec, Time: time, ID: id(100), Session: session,
			Looks: lineage.Looks{UID: 5, Comm: lineage.CommOf("x")}, Argv: []byte(argv)})
	}
	for what, tt := range map[string]struct {
		created uint64
		owner   lineage.ID
		want    string
		shim    bool
	}{
		"asked for by its owner":         {1002, id(9), "[bash -c]", true},
		"its owner is gone, and no rule": {1002, lineage.ID{}, "[bash -c]", true},
		"by a rule, with the same exec":  {1001, lineage.ID{}, "[agent -x]", false},
		"by a rule, just after the exec": {1500, lineage.ID{}, "[agent -x]", false},
		"adopted late":                   {2500, lineage.ID{}, "[bash -c]", false},
		"adopted as it is":               {3500, lineage.ID{}, "[]", false},
		"asked for, and then no exec":    {3500, id(9), "[]", true},
		"of a process that ran before":   {1, lineage.ID{}, "[agent -x]", false},
	} {
		e := family()
		if tt.shim {
			run(e, 1900, "lineage\x00__shim\x005\x0011\x00bash\x00-c\x00")
		}
		run(e, 2000, "bash\x00-c\x00")
		run(e, 3000, "sleep\x009\x00")
		s := Session{Info: tracer.SessionInfo{ID: session, Root: id(100), Created: tt.created, Owner: tt.owner}}
		d := e.Session(&s, everyone{})
		if got := fmt.Sprint(d.Root.FirstArgv); got != tt.want || fmt.Sprint(d.Root.Argv) != "[sleep 9]" {
			t.Errorf("%s: %s, then %s; want %s", what, got, d.Root.Argv, tt.want)
		}
		for _, r := range []Reader{user(6), guest{}} {
			if got, want := e.Session(&s, r).Root, ReadableProcess(d.Root, r); text(t, got) != text(t, want) || strings.Contains(text(t, got), "-c") {
				t.Errorf("%s: %s reads %s, and %s", what, r, text(t, got), text(t, want))
			}
		}
	}
}

// TestDelegated: requests and what was found for them, in the session that asked and in
// the one that holds it.
func TestDelegated(t *testing.T) {
	e := family()
	asked := Request{Broker: "tmux", Client: id(50), Comm: "tmux", UID: 5, Argv: []string{"tmux", "new"}, Time: 40}
	late := asked
	late.Over = true
	found := []Found{{Process: id(102), Comm: "was", Source: tracer.SourceSocket, Request: &asked, Session: session}}
	e.Graph.Contain(id(102), &lineage.Container{ID: "c0", Name: "web"})
	w := Work{Open: []Request{asked, late}, Found: found}
	b := e.Delegated(&w, user(5))
	request := `"broker":"tmux","state":"%s","asked":{"pid":50,"start_ns":"500","comm":"tmux","argv":["tmux","new"],"uid":5},"time":"2026-01-02T03:04:05.00000004Z"`
	same(t, b[0], fmt.Sprintf("{"+request+"}", "pending"))
	same(t, b[1], fmt.Sprintf("{"+request+"}", "unattributed"))
	same(
		t,
		b[2],
		fmt.Sprintf(
			"{"+request+`,"process":{"pid":102,"start_ns":"1020","comm":"agent","container":{"id":"c0","name":"web"}},"evidence":{"kind":"adopted","source":"socket","confidence":"weak"},"session":"000007"}`,
			"attributed",
		),
	)
	for i, x := range e.Delegated(&w, user(6)) {
		if x.Asked.Argv != nil || text(t, x) != text(t, ReadableDelegated(b, user(6))[i]) {
			t.Errorf("%+v", x)
		}
	}
	for i, x := range e.Delegated(&w, guest{}) {
		if x.Asked.Argv[1] != "." || text(t, x) != text(t, ReadableDelegated(b, guest{})[i]) {
			t.Errorf("%+v", x)
		}
	}
	if b[0].Asked.Argv[1] != "new" {
		t.Error("the reader who may not has changed what the one who may has")
	}
	r := api.Report{Processes: []api.Outcome{{Ref: Ref(id(102)), Outcome: api.OutcomeLeft}, {Ref: Ref(id(102)), Outcome: api.OutcomeKill}, {Ref: Ref(id(101))}}}
	if e.Outcomes(&r); r.Processes[0].Container.String() != "web" || r.Processes[2].Container != nil || len(r.Processes[0].Argv) != 2 || r.Processes[1].Argv != nil {
		t.Errorf("%+v", r.Processes)
	}
	s := Session{Info: tracer.SessionInfo{ID: session, Name: "x"}, Work: Work{Open: []Request{asked}, Brought: found}}
	var got string
	for _, o := range e.Orphans(nil, &s, everyone{}) {
		got += fmt.Sprintf("%d %s %s %v; ", o.PID, o.Why, o.State, o.Delegated != nil)
	}
	if want := "102 orphan live true; 50 delegated exited true; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestReadableReport: a copy loses the command lines, the receipt keeps them.
func TestReadableReport(t *testing.T) {
	r := &api.Report{Processes: []api.Outcome{{Argv: []string{"a"}}}}
	if d := ReadableReport(r, 5, user(6)); d.Processes[0].Argv != nil || r.Processes[0].Argv == nil {
		t.Errorf("%+v of %+v", d, r)
	}
	if d := ReadableReport(r, 5, user(5)); d.Processes[0].Argv == nil {
		t.Errorf("%+v", d)
	}
	if d := ReadableReport(r, 5, guest{}); d.Processes[0].Argv[0] != "." || r.Processes[0].Argv[0] != "a" {
		t.Errorf("%+v of %+v", d, r)
	}
}
