//go:build linux

package daemon_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// listener collects what a reader of the events gets.
type listener struct {
	mu         sync.Mutex
	forks      map[int]bool // PIDs
	reconciled int          // of these
	lost       uint64
	gaps       []api.Event
}

func (h *listener) take(ev *api.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case ev.Type == "fork":
		h.forks[ev.Process.PID] = true
		if ev.Process.Evidence.Kind == "reconciled" {
			h.reconciled++
		}
	case ev.Type == "lost":
		h.lost += ev.Count
		h.gaps = append(h.gaps, *ev)
	}
	return nil
}

// TestRealConsumerStopped: during a storm nothing is read, and a ring of one page is
// soon full. Sessions end all the same; when reading continues, the count of lost
// events is the kernel's own, the gap has its time range, the tree is the kernel's, and
// a reader of the events knows every survivor. The receipt is marked as truncated.
func TestRealConsumerStopped(t *testing.T) {
	ctx := t.Context()
	real := daemontest.Real{Ring: os.Getpagesize()}
	real.Gates.Reading.Lock()
	open := sync.OnceFunc(real.Gates.Reading.Unlock)
	c := real.Serve(t)
	t.Cleanup(open)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	h := &listener{forks: map[int]bool{}}
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Events(reading, api.EventsQuery{}, h.take) }()
	defer func() { stop(); <-done }()

	s, in, out, cmd := daemontest.Blocked(t, c, "lngtest", `i=0
		while [ $i -lt 600 ]; do
			/bin/true
			[ $((i % 60)) = 0 ] && (setsid sleep 300 &)
			i=$((i+1))
		done
		echo done; read go`)
	_, err := out.ReadString('\n')
	require.NoError(t, err)
	other, _, _, leftover := daemontest.Blocked(t, c, "lngtest-other", `(setsid sleep 300 &); sleep 301`)
	_, err = c.End(ctx, other.ID, api.EndRequest{Now: true})
	require.NoError(t, err)
	r, err := c.Report(ctx, other.ID, time.Minute)
	if err != nil || r.Verdict != "clean" || !r.ConfirmedEmpty {
		t.Errorf("ended while nobody reads: %+v %v", r, err)
	}
	leftover.Wait()

	second, err := tracer.Open(tracer.Options{Dir: real.Dir, RingSize: os.Getpagesize()}) // for the kernel's own count
	require.NoError(t, err)
	defer second.Close()
	infos, err := second.Sessions()
	if err != nil || len(infos) != 1 || infos[0].ID.String() != s.ID {
		t.Fatalf("%+v %v", infos, err)
	}
	open()
	var counters map[string]uint64
	var survivors, shown []int
	reported := 0
	err = system.Poll(ctx, func() (bool, error) {
		tree, err := c.Tree(ctx, s.ID, "")
		if err != nil {
			return false, err
		}
		survivors, shown, reported = nil, nil, 0
		for _, n := range tree.Nodes {
			if n.State == "live" {
				shown = append(shown, n.PID)
			}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		err = second.Snapshot(infos[0].ID, func(p *tracer.Process) error {
			if !p.Dead {
				survivors = append(survivors, int(p.PID))
				if h.forks[int(p.PID)] {
					reported++
				}
			}
			return nil
		})
		if err == nil {
			counters, err = second.Counters()
		}
		slices.Sort(survivors)
		slices.Sort(shown)
		return len(survivors) == 11 && reported == 11 && slices.Equal(shown, survivors) && h.lost > 0 && h.lost == counters["events_lost"], err
	})
	if err != nil {
		t.Fatalf("%v: survivors %v, %d reported, the tree has %v; %d lost, %d reported", err, survivors, reported, shown, counters["events_lost"], h.lost)
	}
	status, err := c.Status(ctx)
	if err != nil || status.Lost != counters["events_lost"] || status.Lost == 0 {
		t.Errorf("lost %d, the kernel says %d, %v", status.Lost, counters["events_lost"], err)
	}
	h.mu.Lock()
	if h.reconciled == 0 || len(h.gaps) == 0 {
		t.Errorf("%d reconciled, gaps %+v", h.reconciled, h.gaps)
	}
	for _, g := range h.gaps {
		if g.Where != "ring" || g.UntilNS == 0 || g.SinceNS > g.UntilNS {
			t.Errorf("gap %+v", g)
		}
	}
	t.Logf("figure: %d events lost in %d gaps, %d of %d forks reported as reconciled", h.lost, len(h.gaps), h.reconciled, len(h.forks))
	h.mu.Unlock()
	in.Close()
	cmd.Wait()
	if r, err := c.Report(ctx, s.ID, time.Minute); err != nil || r.Verdict != "clean" || !r.Truncated || r.Started < 600 {
		t.Errorf("%+v %v", r, err)
	}
}
