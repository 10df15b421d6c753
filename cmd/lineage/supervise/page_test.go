//go:build linux

package supervise

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func paged(t *testing.T, streams ...[]string) script {
	s := script{Streams: streams, Verdict: receipt("clean", over(101, "kill", "server", "--token", "hunter2"))}
	s.Verdict.Started, s.Verdict.State, s.Verdict.ConfirmedEmpty = 3, api.StateEnded, true
	s.Options.Report, s.Options.Quiet = filepath.Join(t.TempDir(), "r.html"), true
	return s
}

// TestPage: a receipt whose name ends in .html is a page, and is written whatever becomes of the
// events.
func TestPage(t *testing.T) {
	whole := []string{recordingLine, rootLine, forkLine(5, 101), forkLine(6, 102), overLine}
	for name, tt := range map[string]struct {
		s    script
		has  []string
		says string
	}{
		"whole": {paged(t, whole), []string{"<b>7</b><code>sh</code>", "<b>102</b><code>c102</code>", "All 3 processes"}, ""},
		"the connection breaks": {paged(t, whole[:3], []string{forkLine(6, 102), overLine}),
			[]string{"<b>102</b><code>c102</code>", "All 3 processes"}, ""},
		"no policy": {func() script {
			s := paged(t, whole)
			s.NoPolicy = true
			return s
		}(), []string{"Arguments are left out"}, "arguments are left out"},
		"the events end too early": {paged(t, whole[:3]), []string{"events are missing: the daemon did not send the last events", "2 of 3 processes"},
			"the daemon did not send the last events within 8s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, tt.s, "sh", "-c", "exit 3")
			if got.code != 3 || (got.stderr != "") != (tt.says != "") || !strings.Contains(got.stderr, tt.says) || strings.Count(got.stderr, "\n") > 1 {
				t.Errorf("%+v, want to hear %q", got, tt.says)
			}
			page := string(require.ReadFile(t, tt.s.Options.Report))
			require.Contains(t, page, append(tt.has, "ended, clean", "SIGKILL", "The kernel counts no live member", "</html>")...)
			if strings.Contains(page, "hunter2") {
				t.Error("a secret is in the page")
			}
			if all, _ := os.ReadDir(filepath.Dir(tt.s.Options.Report)); len(all) != 1 {
				t.Errorf("beside it: %v", all)
			}
		})
	}
}

// TestPageUnwritten: a page that cannot be written is a receipt that is missing.
func TestPageUnwritten(t *testing.T) {
	s := paged(t, []string{recordingLine, rootLine, overLine})
	dir := filepath.Dir(s.Options.Report)
	got := run(t, s, "sh", "-c", "rmdir "+dir+"; exit 3")
	if got.code != 125 || !strings.HasPrefix(got.stderr, "lineage: run: report "+s.Options.Report+": ") || !strings.Contains(got.stderr, "; the exit code of sh was 3\n") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("%+v", got)
	}
	got = run(t, s, "echo", "never")
	if got.code != 125 || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "no such file") {
		t.Errorf("%+v", got)
	}
}
