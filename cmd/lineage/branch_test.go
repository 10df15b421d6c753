package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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
	if len(f.Got.Ended) != 0 {
		t.Errorf("sessions were asked to end: %v", f.Got.Ended)
	}
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

// On a terminal it asks, and only a yes ends the branch.
func TestEndBranchAsks(t *testing.T) {
	for answer, ends := range map[string]int{"y\n": 1, "n\n": 0, "\n": 0, "\x04": 0} {
		f := newFake()
		w := newWorld(t, f)
		shown := w.terminal(answer)
		code, _, _ := w.run("end", "--branch", member(f).String())
		if text := shown(); code != 1-ends || len(f.Got.Branches) != ends || !strings.Contains(text, "End them? [y/N]") {
			t.Errorf("%q: exit %d, asked the daemon %q, shown:\n%s", answer, code, f.Got.Branches, text)
		}
	}
}

func TestEndBranchRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--branch --yes build":                  "must be PID or PID@START",
		"--branch --yes 1 2":                    "one PID@START",
		"--branch --yes":                        "one PID@START",
		"--branch --all":                        "not --all, --mine, --left or --kept",
		"--branch --mine --kept":                "not --all, --mine, --left or --kept",
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
