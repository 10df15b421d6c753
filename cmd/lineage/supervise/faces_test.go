//go:build linux

package supervise

import (
	"bytes"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	page "github.com/lineage-ebpf/lineage/cmd/lineage/html"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestOneReceipt: "lineage run", "lineage end" and the page say the same of an end, in the same words; TestResult of package
// tui has the words of top.
func TestOneReceipt(t *testing.T) {
	stuck := over(9, "left", "dd", "if=/dev/stuck")
	stuck.Why = "state D (nfs_wait)"
	r := receipt("left", over(5, "kill", "sleep", "300"), stuck)
	r.Left, r.DurationMS, r.VerdictWhy = 1, 12.3, "1 process in state D"
	r.PortsBusy = []api.Port{{Proto: "tcp6", Addr: "::", Port: 81, PID: 77}}
	r.LocksHeld = []api.Lock{{Type: "ofd", Path: "/db"}}
	r.OutputHeldBy = []api.Process{{Ref: api.Ref{PID: 78}, Comm: "tmux"}}
	r.Delegated = []api.Delegated{{Broker: "tmux", Process: &api.Process{Ref: api.Ref{PID: 79}, Comm: "vim"}, Session: "yyyyy3"}}

	faces := map[string]string{"run": run(t, script{Verdict: r}, "/bin/sh", "-c", "exit 4").stderr}
	var out bytes.Buffer
	require.NoError(t, text.Receipts([]text.Receipt{{Report: r}}, false).Write(text.NewPage(&out, time.Now()), "table"))
	faces["end"] = out.String()
	out.Reset()
	require.NoError(t, page.New(&api.Session{ID: r.Session}, func(argv []string) []string { return argv }).Write(&out, r))
	faces["page"] = html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(out.String(), " "))

	words := display.Receipted(r, display.Names{Command: func(p *api.Process) string { return display.Brief(p.Argv, p.Comm, false, 0) }})
	want := []string{words.Verdict, words.Sum}
	for _, row := range words.Rows {
		want = append(want, row.PID, row.Command, row.How)
	}
	for _, n := range words.Notes {
		want = append(want, n.Text)
	}
	require.Equal(t, len(want), 12)
	for name, says := range faces {
		require.Contains(t, name+": "+strings.Join(strings.Fields(says), " "), want...)
	}
}
