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
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
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

// TestTooMany: a command ends at most as many sessions as a command may name.
func TestTooMany(t *testing.T) {
	f := registrytest.New(t)
	f.Run()
	s, all := &Orders{o: Options{Ground: f.Ground()}}, &order{Command: api.Command{All: true}}
	for n := range api.MaxMatched {
		f.Session(uint32(100+n), 1000)
	}
	_, err := s.selected(all, access.Caller{})
	require.NoError(t, err)
	f.Session(99, 1000)
	if _, err := s.selected(all, access.Caller{}); err == nil || !strings.Contains(err.Error(), "1025 sessions") {
		t.Error(err)
	}
}

// TestPending: the receipt of a halt is not complete if the daemon died before it knew what the halt came to.
func TestPending(t *testing.T) {
	d, err := new(Orders).receipt(t.Context(), &accepted{Pending: true}, 0, access.Caller{})
	if err != nil || d.Complete {
		t.Errorf("%+v, %v", d, err)
	}
}
