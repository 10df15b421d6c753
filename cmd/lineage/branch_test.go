package main

import (
	"fmt"
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

func TestEndBranchDryRun(t *testing.T) {
	f := newFake()
	code, stdout, stderr := newWorld(t, f).run("end", "--branch", "--dry-run", member(f).String())
	again := "lineage end --if-plan 5f3a9c01 --branch " + member(f).String()
	if code != 0 || stderr != "" || !strings.Contains(strings.Join(strings.Fields(stdout), " "), again) || len(f.Got.Branches) != 0 {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
	f.On.Plan = func(p *api.Plan) error {
		p.RefusedBy, p.Token = "pid 4121 is an ancestor of the caller", ""
		return nil
	}
	if code, stdout, _ := newWorld(t, f).run("end", "--branch", "--dry-run", member(f).String()); code != api.ExitDenied || strings.Contains(stdout, "--if-plan") {
		t.Errorf("exit %d, %s", code, stdout)
	}
}

// A PID alone means the process that has it now. The daemon gets the token of the plan, and refuses
// if the plan does not hold any more.
func TestEndBranchRequests(t *testing.T) {
	for args, want := range map[string]string{"PID --now": "MEMBER now", "MEMBER --if-plan 5f3a9c01": "MEMBER plan=5f3a9c01"} {
		f := newFake()
		named := strings.NewReplacer("PID", fmt.Sprint(member(f).PID), "MEMBER", member(f).String())
		code, _, stderr := newWorld(t, f).run(strings.Fields("end --branch --yes " + named.Replace(args))...)
		if code != 0 || !slices.Equal(f.Got.Branches, []string{named.Replace(want)}) {
			t.Errorf("%s: exit %d, %s, asked: %q, want %q", args, code, stderr, f.Got.Branches, want)
		}
	}
}

func TestEndBranchRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--branch --yes build":                  "must be PID, PID@START or :PORT",
		"--branch --yes 1 2":                    "one PID@START",
		"--branch --yes":                        "one PID@START",
		"--branch --all":                        "no flag that selects sessions",
		"--branch --mine":                       "no flag that selects sessions",
		"--branch MEMBER":                       "cannot ask for confirmation",
		"--branch --dry-run --if-plan x MEMBER": "only one of them",
	} {
		f := newFake()
		words := strings.Fields(strings.ReplaceAll(args, "MEMBER", member(f).String()))
		code, _, stderr := newWorld(t, f).run(append([]string{"end"}, words...)...)
		if code != api.ExitUsage || !strings.Contains(stderr, want) || len(f.Got.Branches) != 0 {
			t.Errorf("%s: exit %d, %s", args, code, stderr)
		}
	}
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
	return &api.Orphans{Calls: []api.CallLeft{
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
}

func TestCalls(t *testing.T) {
	f := newFake()
	f.Has.Orphans = leftCalls(f)
	golden(t, "ls calls", newWorld(t, f).record("ls", "--calls")+newWorld(t, f).record("ls", "--calls", "build", "-o", "name")+
		newWorld(t, f).record("ls", "--calls", "--columns", "call,cpus"))
}

// The end of a call is one of a branch: of its agent, and only of this call.
func TestEndCall(t *testing.T) {
	for args, want := range map[string]string{"--call toolu_1": "MEMBER call=toolu_1", "--call=toolu_1 build --now": "MEMBER now call=toolu_1",
		"--call toolu_1 --if-plan 5f": "MEMBER call=toolu_1 plan=5f"} {
		f := newFake()
		f.Has.Orphans = leftCalls(f)
		code, _, stderr := newWorld(t, f).run(strings.Fields("end --yes " + args)...)
		want = strings.Replace(want, "MEMBER", member(f).String(), 1)
		if code != 0 || !slices.Equal(f.Got.Branches, []string{want}) || len(f.Got.Ended) != 0 {
			t.Errorf("%s: exit %d, %s, asked: %q, want %q", args, code, stderr, f.Got.Branches, want)
		}
	}
	f := newFake()
	f.Has.Orphans = leftCalls(f)
	code, stdout, stderr := newWorld(t, f).run("end", "--call", "toolu_1", "--dry-run")
	text := strings.Join(strings.Fields(stdout), " ")
	if code != 0 || !strings.Contains(text, fmt.Sprintf("what call toolu_1 of pid %d has left: 1 process would get", member(f).PID)) ||
		!strings.Contains(text, "lineage end --if-plan 5f3a9c01 --call toolu_1 k3x9q2") ||
		len(f.Got.Branches) != 0 {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
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

// A call that cannot be ended gets one line and a code, and the daemon gets no request to end it.
func TestEndCallRefused(t *testing.T) {
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"--call none --yes":            {api.ExitNotFound, "call none: none of that id has a live process"},
		"--call twice --yes":           {api.ExitUsage, "have one of that id"},
		"--call toolu_1":               {api.ExitUsage, "cannot ask for confirmation"},
		"--call toolu_1 --branch 1":    {api.ExitUsage, "only one of --branch and --call"},
		"--call toolu_1 -H web1 --yes": {api.ExitUsage, "for this host, not with -H"},
		"--call toolu_1 --yes nosuch":  {api.ExitNotFound, "nosuch"},
	} {
		f := newFake()
		f.Has.Orphans = leftCalls(f)
		if strings.Contains(args, "nosuch") {
			f.Refuse = api.NewError(api.CodeNotFound, "session nosuch: not found", "")
		}
		code, _, stderr := newWorld(t, f).run(append([]string{"end"}, strings.Fields(args)...)...)
		if code != want.code || !strings.Contains(stderr, want.says) || strings.Count(stderr, "\n") > 2 || len(f.Got.Branches) != 0 {
			t.Errorf("%s: exit %d, %s", args, code, stderr)
		}
	}
}
