//go:build linux

package status_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
)

// scraped returns our own lines, without the library's.
func scraped(w *daemontest.Daemon) map[string]string {
	w.Helper()
	a := w.Do("root", "GET", "/metrics", nil)
	if a.Status != http.StatusOK || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") {
		w.Fatalf("%d %v %s", a.Status, a.Header, a.Body)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(a.Body)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, "lineage_") {
			all[name] = value
		}
	}
	return all
}

func TestMetrics(t *testing.T) {
	w := daemontest.New(t)
	procfstest.Files(t, string(w.Host.Proc), map[string]string{
		"meminfo": "MemTotal:  99 kB\nMemAvailable: 12 kB\nHugePages_Total: 0\n", "loadavg": "0.1 0.2 0.3 1/30000 4711\n", "sys/kernel/pid_max": "32768\n",
	})
	w.K.Feature.Level = 3
	s := w.Session("user", 100, api.NewSession{Name: "lngtest-name", GraceMS: daemontest.MS(0)})
	w.Session("root", 110, api.NewSession{})
	w.K.Fork(100, 101, "lngtest-comm")
	w.Do("else", "POST", "/v1/sessions/"+s.ID+"/end", nil).Refused(api.CodeNotFound)
	w.Look()
	w.K.Exit(100, 0)
	w.Receipt(s.ID)
	w.K.Lose(3)
	got := scraped(w)
	for name, want := range map[string]string{
		`lineage_level`: "3", `lineage_sessions{state="active"}`: "1", `lineage_sessions{state="ended"}`: "1",
		`lineage_sessions{state="ending"}`: "0", `lineage_processes`: "1", `lineage_memory_available_bytes`: "12288", `lineage_pids_available`: "2768",
		`lineage_events_total{type="exit"}`: "2", `lineage_events_lost_total{where="ring"}`: "3",
		`lineage_events_lost_total{where="reader"}`: "0",
		`lineage_resyncs_total{cause="member"}`:     "1", `lineage_resyncs_total{cause="start"}`: "1",
		`lineage_ends_total{reason="root_exit",verdict="clean"}`: "1", `lineage_end_duration_seconds_count`: "1",
		`lineage_end_duration_seconds_bucket{le="+Inf"}`: "1",
		`lineage_refusals_total{verb="end"}`:             "1", `lineage_breaker_open`: "0",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for name := range got {
		for _, secret := range []string{s.ID, "lngtest", "=\"100\"", "=\"1000\""} {
			if strings.Contains(name, secret) {
				t.Errorf("%s names somebody", name)
			}
		}
	}
	w.Do("reader", "GET", "/metrics?x=1", nil).Refused(api.CodeBadRequest)
	for who, may := range map[string]bool{"root": true, "reader": true, "user": false, "110": false} {
		a := w.Do(who, "GET", "/metrics", nil)
		if (a.Status == http.StatusOK) != may {
			t.Errorf("%s: %d %s", who, a.Status, a.Body)
		}
	}
}

// TestRuleGauges: each rule of the policy has one row, however many sessions it has. Sessions of a rule
// that has been removed from the policy are counted in the row of sessions without a rule.
func TestRuleGauges(t *testing.T) {
	const rule = "agents:\n  - {name: lngtest, enabled: true, match: {comm: lngtest-agent}}\n  - {name: lngtest-off, match: {comm: lngtest-off}}\n"
	w := daemontest.New(t, daemontest.WithPolicy(rule))
	const sessions = 40
	for pid := uint32(300); pid < 300+sessions; pid++ {
		w.Add(pid, daemontest.Shell, 1000, "lngtest-shell")
		w.K.Become(pid, "lngtest-agent")
		w.Fork(pid, pid+100, 1000, "lngtest-child")
		w.Fork(pid+100, pid+200, 1000, "lngtest-child")
		w.K.Exit(pid+100, 0)
	}
	gauge := func(what, kept, name string) string {
		return scraped(w)[fmt.Sprintf(`lineage_%s{kept="%s",rule="%s"}`, what, kept, name)]
	}
	orphans := func(name string) string { return gauge("orphans", "false", name) }
	w.Until(func() bool { return orphans("lngtest") == fmt.Sprint(sessions) })
	rows := func() (n int) {
		for name := range scraped(w) {
			if strings.HasPrefix(name, "lineage_leftovers{") {
				n++
			}
		}
		return n
	}
	if n := rows(); n != 2 || orphans("-") != "0" {
		t.Errorf("%d rows of one enabled rule, %s orphans without a rule", n, orphans("-"))
	}
	// A session inside counts in the row of the rule around it, and what is kept in a row of its own.
	daemontest.Into[api.Session](w.Do("root", "POST", "/v1/sessions", api.NewSession{Root: api.Ref{PID: 500}, Adopt: true, OnRootExit: "report"}), http.StatusCreated)
	w.Fork(500, 600, 1000, "lngtest-left")
	w.K.Exit(500, 0)
	w.Until(func() bool { return gauge("leftovers", "false", "lngtest") == "1" })
	daemontest.Into[api.Session](w.Keep("user", 600), http.StatusCreated)
	w.Look()
	w.Until(func() bool {
		return gauge("leftovers", "false", "lngtest") == "0" && gauge("rss_bytes", "true", "-") == "4096" && orphans("lngtest") == fmt.Sprint(sessions-1)
	})
	w.Reload("mode: observe\n")
	w.Until(func() bool { return orphans("-") == fmt.Sprint(sessions-1) && rows() == 2 })
}
