//go:build linux

package signed

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestRoom: all reports together name a bounded number of processes, in bounded bytes. A report without some of them is truncated. What
// a session held goes first, and leaves room for its processes.
func TestRoom(t *testing.T) {
	argv := make([]byte, 3<<10)
	rand.Read(argv)
	long, short := api.Outcome{Argv: []string{base64.StdEncoding.EncodeToString(argv)}}, api.Outcome{Comm: "sh"}
	for name, tt := range map[string]struct {
		outcome api.Outcome
		n       int // processes of each of two reports
		most    int
		held    []api.Lock
	}{
		"few":  {short, 10, 20, nil},
		"many": {short, 3000, 4096, nil},
		"long": {long, 100, 128, nil},
		"held": {short, 1, 2, slices.Repeat([]api.Lock{{Path: strings.Repeat("x", 1000)}}, 1024)},
	} {
		left := maxNamed
		d, named := &api.CommandReceipt{}, 0
		for range 2 {
			report := api.Report{Processes: slices.Repeat([]api.Outcome{tt.outcome}, tt.n), LocksReleased: tt.held}
			left.name(&report)
			if named += len(report.Processes); report.Truncated != (len(report.Processes) < tt.n || tt.held != nil) {
				t.Errorf("%s: %d of %d, truncated %v", name, len(report.Processes), tt.n, report.Truncated)
			}
			d.Reports = append(d.Reports, report)
		}
		text, err := json.Marshal(d)
		require.NoError(t, err)
		if len(text) > 600<<10 || named > tt.most || named < tt.most*9/10 {
			t.Errorf("%s: %d processes in %d bytes, want %d", name, named, len(text), tt.most)
		}
	}
}
