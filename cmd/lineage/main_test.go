package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/internal/require"
)

var update = flag.Bool("update", false, "write the golden files again")

var noon = time.Date(2026, 3, 4, 12, 3, 20, 0, time.UTC)

func at(second int) *time.Time {
	t := noon.Add(time.Duration(second) * time.Second)
	return &t
}

type world struct {
	*app
	t        *testing.T
	out, err bytes.Buffer
	signals  chan os.Signal
	vars     map[string]string
	fakes    map[string]*apitest.Client
	sees     func(text string) // called with all that the terminal has shown, when it shows more
}

func newWorld(t *testing.T, c api.Client) *world {
	w := &world{t: t, signals: make(chan os.Signal), vars: map[string]string{}}
	if f, ok := c.(*apitest.Client); ok {
		w.fakes = map[string]*apitest.Client{"daemon": f}
	}
	w.app = &app{
		Console: cli.Console{
			Stdin: strings.NewReader(""), Stdout: &w.out, Stderr: &w.err,
			Env:        func(name string) string { return w.vars[name] },
			Now:        func() time.Time { return noon },
			Interrupts: func() (<-chan os.Signal, func()) { return w.signals, func() {} },
		},
		dial: func(_ context.Context, socket string) (api.Client, error) {
			if c == nil {
				return nil, &api.UnreachableError{Socket: socket, Err: os.ErrNotExist}
			}
			return c, nil
		},
		host: host{
			version: "v1.2.3", euid: func() int { return 1000 },
			orphans: func(context.Context) ([]text.HostOrphan, []string, error) {
				return hostOrphans(), []string{"pid 1: not permitted"}, nil
			},
			commit:  "0123456789abcdef0123456789abcdef01234567",
			abi:     func() string { return "8f14e45f" },
			objects: func() map[string]string { return map[string]string{"lineage": "8f14e45f", "baseline": "c9f0f895"} },
			doctor:  func(string) api.Doctor { return goodHost },

			unrefused: func() bool { return false },
			halted:    func(string) *api.Halt { return nil },

			commands: func(*app) []*cobra.Command { return nil },
		},
	}
	return w
}

func (w *world) run(args ...string) (code int, stdout, stderr string) {
	w.t.Helper()
	w.out.Reset()
	w.err.Reset()
	code = w.main(w.t.Context(), args)
	return code, w.out.String(), w.err.String()
}

// record runs one command line and returns its exit code and output.
func (w *world) record(args ...string) string {
	w.t.Helper()
	code, stdout, stderr := w.run(args...)
	s := fmt.Sprintf("$ lineage %s\n%s", strings.Join(args, " "), stdout)
	if stderr != "" {
		s += "--- stderr\n" + stderr
	}
	return s + fmt.Sprintf("--- exit %d\n", code)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	got = strings.ReplaceAll(got, runtime.Version(), "goX.Y")
	path := filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run go test -update", err)
	}
	require.Equal(t, got, string(want))
}

// asked is what the daemons got from a command.
func (w *world) asked() (s string) {
	for _, name := range slices.Sorted(maps.Keys(w.fakes)) {
		for got, i := reflect.ValueOf(w.fakes[name].Got), 0; i < got.NumField(); i++ {
			if v := got.Field(i); v.Kind() == reflect.Slice && v.Len() > 0 {
				text, err := json.Marshal(v.Interface())
				require.NoError(w.t, err)
				s += fmt.Sprintf("--- %s got %s %s\n", name, got.Type().Field(i).Name, text)
			}
		}
	}
	return s
}

// transcript runs the command lines of testdata/name.golden again, each in a new world, and compares what they print
// and what the daemons get.
func transcript(t *testing.T, name string, world func() *world) {
	t.Helper()
	path, all := filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".golden"), ""
	for _, want := range strings.Split(string(require.ReadFile(t, path)), "$ lineage")[1:] {
		line, _, _ := strings.Cut(want, "\n")
		args := strings.Fields(line)
		if strings.HasSuffix(line, " ") {
			args = append(args, "") // to complete
		}
		w := world()
		got := w.record(args...) + w.asked()
		if all += got; !*update && got != "$ lineage"+want {
			t.Errorf("got\n%swant\n$ lineage%s", got, want)
		}
	}
	if !t.Failed() {
		golden(t, name, all)
	}
}

var goodHost = api.Doctor{
	Supported: true, Kernel: "6.15.5", Level: 3, Missing: []string{"level 4 lacks: the exit hook runs after exit_mm before 6.16"},
	Items: []api.DoctorItem{
		{Feature: "BTF", OK: true, Required: true},
		{Feature: "programs", OK: true, Required: true, Why: "/sys/kernel/btf/vmlinux"},
		{Feature: "fentry programs", Why: "refused by this kernel: operation not permitted", Do: "without it: new parents come from snapshots"},
	},
}

// formatted are shown in each format.
var formatted = map[string][]string{
	"ls":          {"ls"},
	"tree":        {"tree", "build"},
	"tree all":    {"tree"},
	"why":         {"why", "4130"},
	"why nobody":  {"why", "900"},
	"why port":    {"why", ":8080"},
	"why path":    {"why", "/nonexistent/lngtest"},
	"dry run":     {"end", "--dry-run", "build"},
	"events":      {"events"},
	"history":     {"history"},
	"history of":  {"history", "old"},
	"end":         {"end", "--yes", "build"},
	"end several": {"end", "--yes", "build", "m8p4z1"},
	"ls left":     {"ls", "--left"},
	"wait":        {"wait", "build"},
	"doctor":      {"doctor"},
	"version":     {"version"},
	"status":      {"status"},

	"policy show":    {"policy", "show"},
	"policy explain": {"policy", "explain", "4121"},
	"policy resume":  {"policy", "resume"},
}

func TestFormats(t *testing.T) {
	for name, args := range formatted {
		t.Run(name, func(t *testing.T) {
			var all strings.Builder
			for _, format := range []string{"table", "wide", "json", "jsonl", "name"} {
				w := newWorld(t, newFake())
				all.WriteString(w.record(append(args, "-o", format)...))
				all.WriteString("\n")
			}
			golden(t, name, all.String())
		})
	}
}

// variants are those for which the formats need not be shown.
var variants = map[string][]string{
	"ls coloured":       {"ls", "--color", "always"},
	"ls ended too":      {"ls", "--all"},
	"tree coloured":     {"tree", "build", "--color=always"},
	"tree of a process": {"tree", "4123"},
	"tree exact":        {"tree", "4122@4122000"},
	"tree with exited":  {"tree", "build", "--all"},
	"dry run several":   {"end", "--dry-run", "--now", "build", "m8p4z1", "old"},
	"why coloured":      {"why", "4130", "--color", "always"},
	"doctor coloured":   {"doctor", "--color", "always"},
	"help":              {},
	"help end":          {"end", "--help"},
	"complete sessions": {"__complete", "end", ""},
	"complete begun":    {"__complete", "tree", "b"},
	"complete given":    {"__complete", "end", "build", ""},
	"complete format":   {"__complete", "ls", "-o", ""},
	"complete type":     {"__complete", "events", "--type", "re"},
}

func TestText(t *testing.T) {
	for name, args := range variants {
		t.Run(name, func(t *testing.T) { golden(t, name, newWorld(t, newFake()).record(args...)) })
	}
}

// In a locale without UTF-8 all text is ASCII.
func TestASCII(t *testing.T) {
	other := false
	for _, all := range []map[string][]string{formatted, variants} {
		for name, args := range all {
			w := newWorld(t, newFake())
			w.vars["LC_ALL"], w.vars["TERM"] = "C.UTF-8", "dumb"
			wide := w.record(args...)
			w.vars["LC_ALL"] = "C"
			got := w.record(args...)
			if i := strings.IndexFunc(got, func(r rune) bool { return r >= utf8.RuneSelf }); i >= 0 {
				t.Errorf("%s: %.20q", name, got[i:])
			}
			other = other || wide != got
		}
	}
	if !other {
		t.Error("no text has other characters elsewhere")
	}
	w := newWorld(t, newFake())
	w.vars["LC_ALL"] = "C"
	golden(t, "tree in ASCII", w.record("tree", "build"))
}

func TestNoColor(t *testing.T) {
	w := newWorld(t, newFake())
	w.vars["NO_COLOR"] = "1"
	_, out, _ := w.run("ls", "--color", "always")
	require.Contains(t, out, "\x1b[")
	if _, out, _ := w.run("ls"); strings.Contains(out, "\x1b") {
		t.Error("colour without a terminal")
	}
}

// Errors: one line, the documented code, nothing on stdout. Those of a command line are in a transcript.
func TestErrors(t *testing.T) {
	refuse := func(code, message, hint string) *apitest.Client {
		f := newFake()
		f.Refuse = api.NewError(code, message, hint)
		return f
	}
	ambiguous := api.NewError(api.CodeAmbiguous, "session build: several have that name", "name one by its id")
	ambiguous.Items = []api.Session{{ID: "k3x9q2", State: "active", UID: 1000}, {ID: "m8p4z1", State: "ending", UID: 0}}
	transcript(t, "errors", func() *world { return newWorld(t, newFake()) })
	transcript(t, "errors without a daemon", func() *world { return newWorld(t, nil) })
	for _, tt := range []struct {
		client api.Client
		line   string
		code   int
		want   string
	}{
		{refuse(api.CodeChanged, "end k3x9q2: the plan no longer holds: pid 4150 is not in the plan; nothing was sent", "make a new one"), "end --yes --if-plan x build", 1,
			"end k3x9q2: the plan no longer holds: pid 4150 is not in the plan; nothing was sent; make a new one"},
		{refuse(api.CodeDenied, "keep pid 5: not permitted: the caller is a member of session k3x9q2", "run it from outside the session"), "keep --reason r --until 8h 5@7", 4,
			"keep pid 5: not permitted: the caller is a member of session k3x9q2; run it from outside the session"},
		{refuse(api.CodeDenied, "end k3x9q2: not permitted: it belongs to uid 1001", "run with sudo"), "end --yes build", 4,
			"end k3x9q2: not permitted: it belongs to uid 1001; run with sudo"},
		{refuse(api.CodeInternal, "two\nlines \x1b[31m", ""), "ls", 1, `two\nlines \x1b[31m`},
		{refuse(api.CodeStopping, "the daemon is stopping", ""), "ls", 5, "the daemon is stopping"},
		{&apitest.Client{Refuse: ambiguous}, "end --yes build", 2,
			"session build: several have that name; name one by its id: k3x9q2 (active, uid 1000), m8p4z1 (ending, uid 0)"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			code, stdout, stderr := newWorld(t, tt.client).run(strings.Fields(tt.line)...)
			if code != tt.code || stderr != "lineage: "+tt.want+"\n" || stdout != "" {
				t.Errorf("exit %d, stdout %q, stderr %q\nwant exit %d, stderr %q", code, stdout, stderr, tt.code, tt.want)
			}
		})
	}
}

func TestDoctorWithoutKernel(t *testing.T) {
	w := newWorld(t, nil)
	w.host.doctor = func(string) api.Doctor {
		return api.Doctor{Kernel: "5.4.0", Items: []api.DoctorItem{
			{Feature: "root", OK: true, Required: true},
			{Feature: "BTF", Required: true, Why: "the kernel has no BTF", Do: "use a kernel with CONFIG_DEBUG_INFO_BTF=y"},
		}}
	}
	golden(t, "doctor unsupported", w.record("doctor")+w.record("doctor", "-o", "json"))
}

func TestDoctorTellsTheSelfCheck(t *testing.T) {
	text := ""
	for _, c := range []*api.SelfCheck{
		{OK: true, At: at(-60)},
		{At: at(-60), Why: "the kernel has the orphan in session\x1b[31m aaaaaa"},
	} {
		w := newWorld(t, &apitest.Client{Has: apitest.Has{Status: &api.Status{SelfCheck: c, Degraded: []string{"history is kept in memory only: disk\x1b[31m full"},
			Capabilities: []string{"cap_kill", "cap_sys_ptrace"}}}})
		text += w.record("doctor") + w.record("doctor", "-o", "json")
	}
	golden(t, "doctor self-check", text)
}

// A script can tell by the exit code whether all is well.
func TestStatus(t *testing.T) {
	f := newFake()
	f.Has.Status.Degraded, f.Has.Status.Halt = []string{"history is kept in memory only: disk\x1b[31m full", "lost events"}, &api.Halt{Mode: api.ModeDrain, Reason: "m"}
	f.Has.Status.Breaker, f.Has.Status.SelfCheck = api.Breaker{Open: true, UIDs: []int{1000}}, &api.SelfCheck{Why: "an orphan was missed", At: at(-60)}
	golden(t, "status degraded", newWorld(t, f).record("status")+newWorld(t, f).record("status", "--color", "always")+newWorld(t, nil).record("status")+
		newWorld(t, newFake()).record("status", "-o", "name"))
	well := map[string]*apitest.Client{"web1": newFake(), "web2": f}
	golden(t, "hosts status", fleet(t, well).record("status", "-H", "web1")+fleet(t, well).record("status", "-H", "web1,web2")+fleet(t, well).record("status", "-H", "web2,gone"))
}

// TestHealthChecks: the commands of MONITORING.md's table fail with the exit codes that it says.
func TestHealthChecks(t *testing.T) {
	doc, err := os.ReadFile("../../docs/MONITORING.md")
	require.NoError(t, err)
	ill := newFake()
	ill.Has.Status.Degraded = []string{"lost events"}
	bad := newWorld(t, nil)
	bad.host.doctor = func(string) api.Doctor { return api.Doctor{} }
	rows := regexp.MustCompile("(?m)^\\| `(?:sudo )?lineage (\\w+)` \\| (.*)").FindAllStringSubmatch(string(doc), -1)
	require.Equal(t, len(rows), 2)
	for _, row := range rows {
		failed := ""
		for _, w := range []*world{newWorld(t, newFake()), newWorld(t, ill), bad} {
			if code, _, _ := w.run(row[1]); code != 0 {
				failed += fmt.Sprintf("%d: ", code)
			}
		}
		if said := strings.Join(regexp.MustCompile(`[1-9]: `).FindAllString(row[2], -1), ""); said != failed {
			t.Errorf("%s fails with %s, not %s", row[1], failed, said)
		}
	}
}

func TestVersionWithoutDaemon(t *testing.T) {
	golden(t, "version alone", newWorld(t, nil).record("version")+newWorld(t, nil).record("version", "-o", "json")+
		newWorld(t, nil).record("-V")+newWorld(t, nil).record("--version"))
}

func TestSocketFromEnvironment(t *testing.T) {
	w := newWorld(t, nil)
	w.vars["LINEAGE_SOCKET"] = "/tmp/env.sock"
	_, _, stderr := w.run("ls")
	require.Contains(t, stderr, "/tmp/env.sock")
	_, _, stderr = w.run("ls", "--socket", "/tmp/flag.sock")
	require.Contains(t, stderr, "/tmp/flag.sock")
}

// A request that takes too long is reported without Go's words.
func TestTimedOut(t *testing.T) {
	f := newFake()
	f.On.WhyPort = func(string, int) (*api.Holders, error) { return nil, fmt.Errorf("look: %w", context.DeadlineExceeded) }
	if _, _, stderr := newWorld(t, f).run("why", ":8080"); stderr != "lineage: look: timed out\n" {
		t.Errorf("%q", stderr)
	}
}
