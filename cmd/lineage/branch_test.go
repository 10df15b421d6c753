package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// PID@START of a member of the fake.
func member(f *apitest.Client) api.Ref { return f.Has.Trees[f.Has.Sessions[0].ID].Nodes[1].Ref }

func TestEndBranch(t *testing.T) {
	f := newFake()
	branch := cleanReport("branch")
	branch.Also = []string{f.Has.Sessions[0].ID}
	f.Has.Reports = map[string]*api.Report{"branch": branch}
	code, stdout, stderr := newWorld(t, f).run("end", "--branch", "--yes", member(f).String())
	if code != 0 || stderr != "" || !slices.Equal(f.Got.Branches, []string{member(f).String()}) {
		t.Errorf("exit %d, %s%s, asked: %v", code, stdout, stderr, f.Got.Branches)
	}
	for _, id := range []string{f.Has.Sessions[0].ID, "branch"} { // one receipt for each session
		require.Contains(t, stdout, id)
	}
	require.Equal(t, len(f.Got.Ended), 0)
}

// leftCalls are what tool calls of the fake's agent have left; two were open at once.
func leftCalls(f *apitest.Client) *api.Orphans {
	id, agent := f.Has.Sessions[0].ID, member(f).PID
	began := noon.Add(-9 * time.Hour)
	ended := noon.Add(-8 * time.Hour)
	call := func(id, tool string, pid int, ended *time.Time) api.Call {
		r := ref(pid)
		return api.Call{ID: id, Tool: tool, Agent: &r, Began: &began, Ended: ended, Claimed: true}
	}
	all := &api.Orphans{Calls: []api.CallLeft{
		{Session: id, SessionName: "build", Agent: "claude", Calls: []api.Call{call("toolu_1", "Bash", agent, &ended)},
			Processes: 41, CPUs: 7.04, RSSBytes: 40 << 20,
			Commands: []api.CallCommand{{Processes: 39, Comm: "yes", Argv: []string{"yes"}}}, MoreRun: 2},
		{
			Session:     id,
			SessionName: "build",
			Agent:       "claude",
			Calls:       []api.Call{call("call\x1b[2J", "", agent, nil), call("call 3", "Bash", agent, &ended)},
			Ambiguous:   true,
			Processes:   1,
			Ports:       []int{80, 8080},
			Commands:    []api.CallCommand{{Processes: 1, Comm: "no\nde"}},
		},
		{Session: id, Calls: []api.Call{call("twice", "Bash", agent, nil)}},
		{Session: id, Calls: []api.Call{call("twice", "Bash", agent+1, nil)}},
	}, MoreCalls: 3}
	all.Calls[0].CPUSeconds = 75.5
	all.Calls[0].Calls[0].Used = &api.Used{Processes: 9, CPUSeconds: 5.5, PeakRSSBytes: 3 << 30, Largest: "cc1"}
	return all
}

// The end of a call asks, and says what may be of it.
func TestEndCall(t *testing.T) {
	for answer, ends := range map[string]int{"y\n": 1, "n\n": 0} {
		f := newFake()
		f.Has.Orphans = leftCalls(f)
		f.On.Plan = func(p *api.Plan) error { p.Ambiguous = 2; return nil }
		w := newWorld(t, f)
		shown := w.terminal(answer)
		code, _, _ := w.run("end", "--call", "toolu_1")
		if text := strings.Join(
			strings.Fields(shown()),
			" ",
		); code != 1-ends || len(f.Got.Branches) != ends || !strings.Contains(text, "2 more processes may be of this call, or of another one") ||
			!strings.Contains(text, "End them? [y/N]") {
			t.Errorf("%q: exit %d, asked the daemon %q, shown:\n%s", answer, code, f.Got.Branches, text)
		}
	}
}
