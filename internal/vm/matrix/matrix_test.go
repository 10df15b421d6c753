//go:build linux

package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/internal/vm/boot"
	"github.com/lineage-ebpf/lineage/internal/vm/guest"
)

func TestPromised(t *testing.T) {
	for release, want := range map[string]int{
		"5.10.0-46-cloud-amd64":     2,
		"6.1.0-56-cloud-amd64":      2,
		"6.12.117+deb13-amd64":      2,
		"6.13.0":                    3,
		"6.15.9":                    3,
		"6.16.0":                    4,
		"6.18.15+deb13-rt-amd64":    3,
		"6.1.0-56-rt-amd64":         2,
		"6.18.15+deb13-cloud-amd64": 4,
		"7.2.12+deb13-cloud-amd64":  4,
		"10.0":                      4,
		"unknown":                   4,
	} {
		if got := promised(release); got != want {
			t.Errorf("%s: level %d, want %d", release, got, want)
		}
	}
}

// A skip is excused where the kernel lacks what the reason names, and nowhere else.
func TestUnexcused(t *testing.T) {
	v1 := &cell{cgroup: "v1"}
	for _, c := range []struct {
		cell    *cell
		level   int
		reason  string
		excused bool
	}{
		{&cell{}, 2, "level 2 has no end from the exit hook: [level 3 lacks: x]", true},
		{&cell{}, 3, "level 3 has no end from the exit hook: []", true},
		{&cell{}, 4, "level 3 has no end from the exit hook: []", false},
		{&cell{}, 2, "this kernel has level 2 at best", true},
		{&cell{}, 4, "this kernel has level 2 at best", false},
		{&cell{}, 4, "no version 1 freezer is mounted", true},
		{v1, 4, "no version 1 freezer is mounted", false},
		{v1, 4, "no cgroup of version 2 is mounted", true},
		{&cell{}, 4, "no cgroup of version 2 is mounted", false},
		{&cell{}, 4, "no tmux; run make test-brokers", true},
		{&cell{}, 2, "needs root", false},
		{&cell{}, 2, "", false},
	} {
		got := unexcused(c.cell, c.level, skip{"TestX", c.reason})
		if (got == "") != c.excused {
			t.Errorf("cgroup %q, level %d, %q: %q", c.cell.cgroup, c.level, c.reason, got)
		}
	}
}

func TestReadEvents(t *testing.T) {
	o, err := readEvents(strings.NewReader(`
{"Action":"start"}
{"Action":"run","Test":"TestA"}
{"Action":"pass","Test":"TestA","Elapsed":1}
{"Action":"run","Test":"TestB"}
{"Action":"output","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Test":"TestB","Output":"    b_test.go:99: level 2 is not enough\n"}
{"Action":"output","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Test":"TestB"}
{"Action":"output","Test":"TestC/sub","Output":"    c_test.go:1: it broke\n"}
{"Action":"fail","Test":"TestC/sub"}
{"Action":"fail"}
`))
	require.NoError(t, err)
	want := outcome{
		passed: 1, failed: 1,
		skips:    []skip{{"TestB", "level 2 is not enough"}},
		failures: []string{"TestC/sub:\nc_test.go:1: it broke"},
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("got  %+v\nwant %+v", o, want)
	}
	if _, err := readEvents(strings.NewReader("no JSON")); err == nil {
		t.Error("something else was read as events")
	}
}

// The output of a real test binary is parsed correctly.
func TestReadTests(t *testing.T) {
	o, err := readTests([]byte("\x16=== RUN   TestX\n    x_test.go:1: because\n\x16--- SKIP: TestX (0.00s)\n\x16=== NAME  \nPASS\n"))
	if err != nil || !reflect.DeepEqual(o.skips, []skip{{"TestX", "because"}}) {
		t.Errorf("%+v, %v", o, err)
	}
}

// judged returns what the matrix finds wrong with a machine.
func judged(t *testing.T, c *cell, b *boot.Result) []string {
	t.Helper()
	r := &result{Release: "6.18.1"}
	c.judge(r, b, []suite{tracer}, options{update: true})
	return r.problems()
}

func TestJudge(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("internal/vm/matrix/testdata", 0o755))
	pass := "\x16=== RUN   TestX\n\x16--- PASS: TestX (0.00s)\n\x16=== NAME  \nPASS\n"
	good := func() *boot.Result {
		return &boot.Result{Console: []byte("reboot: Power down\n"), Jobs: []boot.Job{
			{Name: doctorText, Output: []byte("level 4\n")},
			{Name: doctorJSON, Output: []byte(`{"level": 4}`)},
			{Name: tracer.name(), Output: []byte(pass)},
		}}
	}
	c := &cell{name: "test cell", series: "6.18"}
	if got := judged(t, c, good()); len(got) != 0 {
		t.Fatalf("nothing is wrong, but: %q", got)
	}
	for name, spoil := range map[string]func(*boot.Result){
		"lower level":        func(b *boot.Result) { b.Jobs[1].Output = []byte(`{"level": 3}`) },
		"higher level":       func(b *boot.Result) { b.Jobs[1].Output = []byte(`{"level": 5}`) },
		"doctor's exit code": func(b *boot.Result) { b.Jobs[0].Code = 7 },
		"doctor is silent":   func(b *boot.Result) { b.Jobs[1].Output = nil },
		"kernel complains":   func(b *boot.Result) { b.Console = []byte("WARNING: CPU: 0 PID: 1 at x\n") },
		"left alive":         func(b *boot.Result) { b.Jobs[2].Left = []string{"7 x"} },
		"out of time":        func(b *boot.Result) { b.Jobs[2].Code = guest.TimedOut },
		"exit code":          func(b *boot.Result) { b.Jobs[2].Code = 1 },
		"nothing tested":     func(b *boot.Result) { b.Jobs[2].Output = []byte("PASS\n") },
		"suite not run":      func(b *boot.Result) { b.Jobs = b.Jobs[:2] },
		"test failed":        func(b *boot.Result) { b.Jobs[2].Output = []byte(strings.ReplaceAll(pass, "PASS:", "FAIL:")) },
		"skip":               func(b *boot.Result) { b.Jobs[2].Output = []byte(strings.ReplaceAll(pass, "PASS:", "SKIP:")) },
	} {
		b := good()
		spoil(b)
		if got := judged(t, c, b); len(got) == 0 {
			t.Errorf("%s: not seen", name)
		}
	}
}

func TestPages(t *testing.T) {
	r := []*result{
		{Cell: "6.18", Release: "6.18.15+deb13", Level: 4, Why: "a|b",
			Lacks: []string{"x: on 6.18.15+deb13"},
			Suites: []suiteResult{{Name: "basics", Date: "2026-01-02", Passed: 3,
				Skips: []skip{{"TestA", "r"}, {"TestB", "r"}, {"TestC", "r"}, {"TestD", "r"}}}}},
		{Cell: "6.1", Release: "6.1.0-56", Level: 2, Problems: []string{"bad"}},
	}
	for name, c := range map[string]struct{ got, want string }{
		"cells":   {cellTable(r), `| 6.18 | 6.18.15+deb13 | a\|b | 4 | 3 | 4 | 11 | 2026-01-02 | **verifier**, **tracer**, **enforcer**, **daemon**, **cgroups**, **holdings**, **selfcheck**, **e2e**, **escapes**, **escapes with limits**, **containers** |`},
		"missing": {missingTable(r), "| 6.18 | x: on this kernel |"},
		"levels":  {levelTable(r), "dead or stopped | 6.18.15 |"},
	} {
		if !strings.Contains(c.got, c.want) {
			t.Errorf("%s has no %q:\n%s", name, c.want, c.got)
		}
	}
	if got := levelTable(r); strings.Contains(got, "5.10 to 6.12") {
		t.Errorf("a kernel with a problem is a promise:\n%s", got)
	}
	r[0].Suites[0].Name = "verifier"
	if got := levelTable(r); strings.Contains(got, "6.18.15") {
		t.Errorf("a kernel on which nothing was ended is a promise:\n%s", got)
	}
}

// A run of some suites keeps the results of the others, of the same kernel.
func TestSaveKeepsOtherSuites(t *testing.T) {
	t.Chdir(t.TempDir())
	c := &cell{name: "test cell", suites: []suite{tracer, daemon}}
	save := func(release string, suites ...suiteResult) *result {
		t.Helper()
		require.NoError(t, c.save(&result{Cell: c.name, Release: release, Suites: suites}))
		r, err := c.load()
		require.NoError(t, err)
		return r
	}
	save("6.1.1", suiteResult{Name: "tracer", Passed: 1, Problems: []string{"bad"}}, suiteResult{Name: "daemon", Passed: 2})
	r := save("6.1.1", suiteResult{Name: "tracer", Passed: 3})
	want := []suiteResult{{Name: "tracer", Passed: 3}, {Name: "daemon", Passed: 2}}
	if !reflect.DeepEqual(r.Suites, want) || len(r.problems()) != 0 {
		t.Errorf("after a run of one: %+v", r)
	}
	if r := save("6.1.2", suiteResult{Name: "daemon", Passed: 4}); len(r.Suites) != 1 {
		t.Errorf("another kernel has the results of the old one: %+v", r)
	}
}

// Every cell can be run: its kernel is fetched, its tests are built, its suites have a
// timeout.
func TestCells(t *testing.T) {
	makefile := require.ReadFile(t, "../../../Makefile")
	listed := func(name string) []string {
		for line := range strings.Lines(strings.ReplaceAll(string(makefile), "\\\n", "")) {
			if left, right, found := strings.Cut(line, ":="); found && strings.TrimSpace(left) == name {
				return strings.Fields(right)
			}
		}
		return nil
	}
	has := func(list []string, s string) bool {
		for _, l := range list {
			if l == s {
				return true
			}
		}
		return false
	}
	names := map[string]bool{}
	for _, c := range cells {
		if names[fileName(c.name)] {
			t.Errorf("%s is there twice", c.name)
		}
		names[fileName(c.name)] = true
		kernels := "KERNELS"
		if c.arch == "arm64" {
			kernels = "ARM_KERNELS"
		}
		if !has(listed(kernels), strings.TrimSuffix(c.series, "-arm64")) {
			t.Errorf("%s: the Makefile fetches no Linux %s", c.name, c.series)
		}
		if c.why == "" || len(c.suites) == 0 && !c.untracked {
			t.Errorf("%s has nothing to run, or no reason to", c.name)
		}
		parts := map[string]bool{}
		for _, s := range c.suites {
			if parts[s.name()] {
				t.Errorf("%s has %s twice", c.name, s.name())
			}
			parts[s.name()] = true
		}
		for _, s := range c.suites {
			if !has(listed("VM_TESTS"), s.dir) || s.timeout < time.Minute {
				t.Errorf("%s: %s is not built, or has no time", c.name, s.dir)
			}
		}
	}
}
