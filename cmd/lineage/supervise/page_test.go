//go:build linux

package supervise

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// lines of a stream of events.
const (
	rootLine = `{"kind":"event","seq":"4","time_ns":"1000","type":"fork","process":{"pid":7,"start_ns":"700","comm":"sh","evidence":{"kind":"root"}},"session":"k3x9q2"}`
	lostLine = `{"kind":"event","type":"lost","where":"history","time":"2026-03-04T12:00:00Z"}`
	overLine = `{"kind":"end","reason":"session_over"}`
	stopLine = `{"kind":"end","reason":"stopping"}`
)

func forkLine(seq, pid int) string {
	return fmt.Sprintf(
		`{"kind":"event","seq":"%d","time_ns":"%d","type":"fork","process":{"pid":%d,"start_ns":"800","comm":"c%[3]d","creator":{"pid":7,"start_ns":"700"}}}`,
		seq,
		1000+seq,
		pid,
	)
}

func paged(t *testing.T, streams ...[]string) script {
	s := script{Streams: streams, Verdict: receipt("clean", over(101, "kill", "server", "--token", "hunter2")), Log: filepath.Join(t.TempDir(), "log")}
	s.Verdict.Started, s.Verdict.State, s.Verdict.ConfirmedEmpty = 3, api.StateEnded, true
	s.Alive = &api.Tree{}
	s.Options.Report, s.Options.Quiet = filepath.Join(t.TempDir(), "r.html"), true
	return s
}

// TestPage: a receipt whose name ends in .html is a page of what the history has at the end; it is
// written whatever the history has lost, and says so.
func TestPage(t *testing.T) {
	const gaps = "The history does not have all events of this session"
	whole := []string{rootLine, forkLine(5, 101), forkLine(6, 102), overLine}
	denied, late := paged(t, whole), paged(t)
	denied.NoPolicy, late.Waits = true, 10*time.Second // half of it
	for name, tt := range map[string]struct {
		s     script
		has   []string
		asked int
		says  string
	}{
		"whole":                   {paged(t, whole), []string{"<b>7</b><code>sh</code>", "<b>102</b><code>c102</code>", "All 3 processes"}, 1, ""},
		"the connection breaks":   {paged(t, whole[:2], whole), []string{"<b>102</b><code>c102</code>", "All 3 processes"}, 2, ""},
		"the daemon is restarted": {paged(t, append(whole[:2:2], stopLine), whole), []string{"<b>102</b><code>c102</code>", "All 3 processes"}, 2, ""},
		"no policy":               {denied, []string{"Arguments are left out"}, 1, "Arguments are left out"},
		"the history lost some":   {paged(t, []string{lostLine, forkLine(6, 102), overLine}), []string{gaps, "events missing: history", "Not shown: 2"}, 1, gaps},
		"the history has none":    {paged(t, []string{overLine}), []string{gaps, "events are missing: history", "Not shown: 3"}, 1, gaps},
		"no answer in time":       {late, []string{gaps, "events are missing: context deadline exceeded"}, 1, gaps},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, tt.s, "sh", "-c", "exit 3")
			if got.code != 3 || (got.stderr != "") != (tt.says != "") || !strings.Contains(got.stderr, tt.says) || strings.Count(got.stderr, "\n") > 1 {
				t.Errorf("%+v, want to hear %q", got, tt.says)
			}
			page := string(require.ReadFile(t, tt.s.Options.Report))
			require.Contains(t, page, append(tt.has, "ended, clean", "SIGKILL", "yes, by the kernel", "</html>")...)
			if strings.Contains(page, "hunter2") || strings.Contains(page, gaps) != (tt.says == gaps) {
				t.Error("a secret is in the page, or gaps that are none")
			}
			calls := string(require.ReadFile(t, tt.s.Log))
			if strings.Count(calls, "events\n") != tt.asked || strings.Index(calls, "events\n") < strings.LastIndex(calls, "report\n") {
				t.Errorf("calls\n%s\nwant events %d times, after the receipt", calls, tt.asked)
			}
			if all, _ := os.ReadDir(filepath.Dir(tt.s.Options.Report)); len(all) != 1 {
				t.Errorf("beside it: %v", all)
			}
		})
	}
}

// TestPageUnwritten: a page that cannot be written is a receipt that is missing.
func TestPageUnwritten(t *testing.T) {
	s := paged(t, []string{rootLine, overLine})
	dir := filepath.Dir(s.Options.Report)
	got := run(t, s, "sh", "-c", "rmdir "+dir+"; exit 3")
	if got.code != 125 || !strings.HasPrefix(got.stderr, "lineage: run: report "+s.Options.Report+": ") || !strings.Contains(got.stderr, "; the exit code of sh was 3\n") ||
		strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("%+v", got)
	}
	got = run(t, s, "echo", "never")
	if got.code != 125 || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "no such file") {
		t.Errorf("%+v", got)
	}
}
