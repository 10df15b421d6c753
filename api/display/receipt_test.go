package display

import (
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// Everything that an ended session held is said once, with who has it now.
func TestAfterEnd(t *testing.T) {
	r := &api.Report{
		PortsFreed:    []api.Port{{Proto: "tcp", Addr: "::1", Port: 80, PID: 5}},
		PortsTimeWait: []api.Port{{Proto: "tcp", Addr: "::1", Port: 80, Connections: 1}},
		PortsBusy:     []api.Port{{Proto: "udp", Addr: "0.0.0.0", Port: 53, PID: 77}, {Proto: "unix", Addr: "/s\n"}},
		LocksReleased: []api.Lock{{Type: "flock", Mode: "write", Path: "/db", Waiting: []int{7, 8}}},
		LocksHeld:     []api.Lock{{Type: "file", Path: "/lock", PID: 9, Waiting: []int{7}}},
		OutputHeldBy:  []api.Process{{Ref: api.Ref{PID: 78}, Comm: "tmux"}},
		HoldsUnknown:  []string{"pid 4: timed out"},
	}
	var got, bad []string
	for _, n := range AfterEnd(r, &Names{Command: func(p *api.Process) string { return p.Comm }}) {
		got = append(got, n.Text)
		if n.Tone == Warn {
			bad = append(bad, n.Text)
		}
	}
	if want := []string{
		"freed tcp [::1]:80", "tcp [::1]:80 has 1 connection in TIME_WAIT", "still busy: udp 0.0.0.0:53, by 77", `still busy: unix /s\n, by an unknown process`,
		"released flock (write) /db, waited for by 7 8", "still held: lock file /lock, waited for by 7, by 9", "its output is still open in 78 tmux",
		"note: not everything could be read: pid 4: timed out",
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if want := []string{got[2], got[3], got[5], got[6]}; !slices.Equal(bad, want) {
		t.Errorf("bad: %q, want %q", bad, want)
	}
}

func TestEnded(t *testing.T) {
	r := &api.Report{Started: 900, Exited: 100, Left: 2, Processes: make([]api.Outcome, 5)}
	if ended, members := Ended(r); ended != 798 || members != 800 {
		t.Errorf("before the verdict: %d of %d", ended, members)
	}
	r.Verdict = api.VerdictLeft
	if ended, members := Ended(r); ended != 3 || members != 5 {
		t.Errorf("%d of %d", ended, members)
	}
	r.Truncated = true
	if ended, members := Ended(r); ended != 798 || members != 800 {
		t.Errorf("truncated: %d of %d", ended, members)
	}
}
