//go:build linux

package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// guarded is a command line with an argument that every caller with command lines may read,
// a known secret, and a secret that only the policy's own expression finds.
const guarded = "lngtest\x00--shown\x00--password\x00hunter2\x00pin-1234\x00"

var (
	shown  = regexp.MustCompile("--shown")
	secret = regexp.MustCompile("hunter2|pin-1234")
)

// TestCommandLines walks all routes that read, with each kind of caller: live processes, dead ones,
// those outside of sessions, work of other daemons, and a session that only the history has.
func TestCommandLines(t *testing.T) {
	filesInDir := func(d *daemontest.Daemon) { d.Host.Files = d.Dir }
	w := daemontest.New(t, daemontest.WithPolicy("redact: ['pin-[0-9]+']\n"), daemontest.WithBoot("b1"), filesInDir)
	past := w.Session("user", 200, api.NewSession{Name: "past", GraceMS: daemontest.MS(0)})
	w.K.Exec(200, "/bin/lngtest", guarded)
	w.K.Fork(200, 201, "lngtest")
	w.K.Exit(200, 0)
	w.Receipt(past.ID)
	w.Restart()

	w.Session("user", 100, api.NewSession{Name: "work", GraceMS: daemontest.MS(0)})
	w.K.Exec(100, "/bin/lngtest", guarded)
	w.Fork(100, 102, 1000, "tmux")
	w.K.Exec(102, "/usr/bin/tmux", "/usr/bin/tmux\x00new\x00-d\x00--shown\x00--password\x00hunter2\x00")
	w.K.AllRead()
	for _, p := range [][2]uint32{{100, 103}, {103, 104}, {100, 105}} {
		w.Fork(p[0], p[1], 1000, "lngtest")
	}
	w.K.Exit(103, 0)
	w.Add(300, daemontest.Shell, 1000, "lngtest-outside")
	w.File(300, "cmdline", guarded)
	orphan := api.Ref{PID: 104, StartNS: api.U64(w.K.Proc(104).Identity.Start)}
	execs := func() { w.K.Exec(105, "/bin/lngtest", guarded); w.K.AllRead() }

	const none, live, written = "none", "live", "written" // the history is redacted for everyone
	type request struct {
		sort, path string
		until      string // the line that a stream is read to
		act        func() // while it is read
	}
	requests := map[string][]request{
		"GET /v1/version":               {{none, "/v1/version", "", nil}},
		"GET /v1/status":                {{none, "/v1/status", "", nil}},
		"GET /metrics":                  {{none, "/metrics", "", nil}},
		"GET /v1/leaks":                 {{none, "/v1/leaks", "", nil}},
		"GET /v1/policy":                {{none, "/v1/policy", "", nil}},
		"GET /v1/history":               {{written, "/v1/history", "", nil}},
		"GET /v1/sessions":              {{live, "/v1/sessions", "", nil}, {written, "/v1/sessions?state=ended", "", nil}},
		"GET /v1/sessions/{s}":          {{live, "/v1/sessions/work", "", nil}, {written, "/v1/sessions/past", "", nil}},
		"GET /v1/sessions/{s}/tree":     {{live, "/v1/sessions/work/tree?dead=all", "", nil}, {written, "/v1/sessions/past/tree?dead=all", "", nil}},
		"GET /v1/sessions/{s}/report":   {{live, "/v1/sessions/work/report", "", nil}, {written, "/v1/sessions/past/report", "", nil}},
		"GET /v1/processes/{ref}":       {{live, "/v1/processes/104", "", nil}, {live, "/v1/processes/300", "", nil}, {written, "/v1/processes/201", "", nil}},
		"GET /v1/why":                   {{live, "/v1/why?ref=104", "", nil}, {live, "/v1/why?ref=300", "", nil}, {written, "/v1/why?ref=201", "", nil}},
		"GET /v1/policy/explain":        {{live, "/v1/policy/explain?ref=104", "", nil}, {live, "/v1/policy/explain?ref=300", "", nil}},
		"GET /v1/orphans":               {{live, "/v1/orphans", "", nil}},
		"GET /v1/commands/{id}":         {{none, "/v1/commands/x", "", nil}}, // see TestCommand
		"GET /v1/watch":                 {{live, "/v1/watch", `"pid":104`, nil}},
		"POST /v1/sessions/{s}/plan":    {{live, "/v1/sessions/work/plan", "", nil}},
		"POST /v1/processes/{ref}/plan": {{live, "/v1/processes/" + orphan.String() + "/plan", "", nil}},
		"GET /v1/events": {
			{live, "/v1/events?session=work", `"exec".*"pid":105`, execs}, {live, "/v1/events", `"exec".*"pid":105`, execs},
			{live, "/v1/events?snapshot=1", `"pid":105`, nil},
			{written, "/v1/events?session=past&since=2026-01-01T00:00:00Z", "", nil},
		},
	}
	for _, pattern := range slices.Sorted(maps.Keys(w.Service.API.Routes())) {
		method, _, _ := strings.Cut(pattern, " ")
		if method == http.MethodGet && requests[pattern] == nil {
			t.Errorf("this test has no request for %s", pattern)
		}
		for _, q := range requests[pattern] {
			for who, gets := range map[string]string{"root": "whole", "user": "whole", "reader": "redacted", "else": "nothing"} {
				if who == "else" && strings.HasPrefix(q.path, "/v1/events") && q.until != "" {
					continue // a stream without lines
				}
				until := q.until
				if who == "else" && until != "" {
					until = `"snapshot"` // and no process
				}
				text := read(w, who, method, q.path, until, q.act)
				wantShown := q.sort != none && gets != "nothing"
				wantSecret := q.sort == live && gets == "whole"
				if shown.MatchString(text) != wantShown || secret.MatchString(text) != wantSecret {
					t.Errorf("%s %s is to get %s: %s", who, q.path, gets, text)
				}
			}
		}
	}
}

// read returns an answer, or the part of a stream up to a line.
func read(w *daemontest.Daemon, who, method, path, until string, act func()) string {
	w.Helper()
	if until == "" {
		return string(w.Do(who, method, path, nil).Body)
	}
	w.K.AllRead()
	ctx, cancel := context.WithTimeout(w.Context(), require.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://lineage"+path, nil)
	require.NoError(w, err)
	resp, err := w.Client(who).Do(req)
	require.NoError(w, err)
	defer resp.Body.Close()
	if act != nil {
		act()
	}
	last := regexp.MustCompile(until)
	var text strings.Builder
	for b := make([]byte, 64<<10); ; {
		n, err := resp.Body.Read(b)
		text.Write(b[:n])
		if err == io.EOF || strings.HasSuffix(text.String(), "\n") && last.MatchString(text.String()) {
			return text.String()
		}
		if err != nil {
			w.Fatalf("%s %s: %v after %s", who, path, err, text.String())
		}
	}
}

// TestGroupInsideASession: an operator's agent does not have the rights of the operator's group.
func TestGroupInsideASession(t *testing.T) {
	w := daemontest.New(t)
	s := w.Session("reader", 400, api.NewSession{Name: "agent"})
	grouped(w, 400)
	w.K.Exec(400, "/bin/lngtest", guarded)
	w.K.Fork(400, 401, "lngtest-setuid")
	w.K.Edit(401, func(p *kerneltest.Proc) { p.UID = 1000 })
	w.Proc(401, 400, 1000, "lngtest-setuid")
	w.K.Exec(401, "/bin/lngtest", guarded)
	w.Add(410, daemontest.Shell, 1001, "lngtest-peer")
	grouped(w, 410)
	for who, want := range map[string][2]string{
		"root":   {"--password hunter2", "--password hunter2"},
		"reader": {"--password hunter2", "--password [redacted]"}, // its own, and that of another user
		"410":    {"--password [redacted]", "--password [redacted]"},
		"400":    {"--password hunter2", "[]"},
	} {
		d := daemontest.Get[api.Tree](w, who, "/v1/sessions/"+s.ID+"/tree")
		for i, argv := range want {
			if got := fmt.Sprint(d.Nodes[i].Argv); !strings.Contains(got, argv) {
				t.Errorf("%s gets %s of %d, want %s", who, got, d.Nodes[i].PID, argv)
			}
			if cwd := d.Nodes[i].Cwd != ""; cwd != (strings.Contains(argv, "hunter2")) {
				t.Errorf("%s gets the directory of %d: %v", who, d.Nodes[i].PID, cwd)
			}
		}
	}
}

// TestRedactAfterReload: redaction follows the policy in force, also for a stream that was opened
// before.
func TestRedactAfterReload(t *testing.T) {
	p := daemontest.New(t, daemontest.WithPolicy(""))
	p.Session("user", 100, api.NewSession{Name: "x"})
	events := p.Events("reader", "?type=exec")
	next := func(want string) {
		t.Helper()
		p.K.Exec(100, "/bin/lngtest", "lngtest\x00pin-1234\x00")
		p.K.AllRead()
		if ev := events.Next(); ev == nil || fmt.Sprint(ev.Process.Argv) != want {
			t.Errorf("%+v, want %s", ev, want)
		}
		if d := daemontest.Get[api.Session](p, "reader", "/v1/sessions/x"); fmt.Sprint(d.Root.Argv) != want {
			t.Errorf("%s, want %s", d.Root.Argv, want)
		}
	}
	next("[lngtest pin-1234]")
	p.Reload("redact: ['pin-[0-9]+']\n")
	next("[lngtest [redacted]]")
}

// grouped puts a process into the group that reads everything.
func grouped(w *daemontest.Daemon, pid uint32) { w.Readers.Store(pid, true) }
