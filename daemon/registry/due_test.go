//go:build linux

package registry

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// There is a look each period while something happens, few when nothing does, and none without a
// session. A gap in the kernel's counters brings a look at once.
func TestQuiet(t *testing.T) {
	o, k := newRegistry(t)
	looks := 0
	limits := WantNone
	walked := func(p *tracer.Process) {
		if p == nil {
			looks++
		}
	}
	o.Attach(&Hooks{Met: walked, Walking: func(View) Want { return limits }})
	runs(t, o)
	update := func(f func(Tx)) {
		t.Helper()
		require.NoError(t, o.Update(f))
	}
	periods := func(what string, n, want int) {
		t.Helper()
		looks = 0
		for range n {
			_, err := o.looks.sample(CauseNone, true)
			require.NoError(t, err)
		}
		if looks != want {
			t.Errorf("%s: %d looks in %d periods, want %d", what, looks, n, want)
		}
	}
	exec := func() {
		update(func(tx Tx) {
			tx.Apply([]tracer.Event{{Type: tracer.EventExec, Process: k.Proc(100).Identity, Filename: []byte("/bin/a")}})
		})
	}
	periods("without a session", 20, 0)
	var s *Session
	update(func(Tx) { s = session(t, o, k, 100) })
	exec()
	periods("with a new session", system.LooksAfter, system.LooksAfter)
	periods("nothing happens", 10*system.LooksApart, 10)
	exec()
	periods("an event", system.LooksAfter+1, system.LooksAfter)
	periods("nothing happens after it", 10*system.LooksApart, 10)
	host := func(load, alive string, looks int) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(string(o.o.Proc), "loadavg"), []byte("0.50 0.00 0.00 "+load+"\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(string(o.o.Proc), alive), nil, 0o600))
		periods("on the host: "+load, system.LooksAfter, looks)
	}
	host("1/80 100", "100", system.LooksAfter)
	host("3/80 100", "100", 1)                 // it runs
	host("3/79 150", "100", 0)                 // others were born and have died
	host("3/78 149", "100", system.LooksAfter) // PIDs begin anew
	host("3/78 150", "150", system.LooksAfter) // one dies, another is born
	host("3/79 150", "7", system.LooksAfter)   // CRIU chooses the PID of what it restores
	periods("nothing happens after that", 10*system.LooksApart, 10)
	k.Count("missed_births", 1)
	periods("a miss, while nothing else happens", system.LooksApart, 1)
	limits = WantEach
	periods("a limit that only looks show", 5, 5)
	limits = WantNone
	update(func(tx Tx) { tx.Track(true) })
	periods("somebody watches", 5, 5)
	update(func(tx Tx) { tx.Track(false) })
	periods("nothing happens again", system.LooksApart, 1)
	update(func(Tx) { s.info.Expires = 1 })
	periods("a lifetime is over", 1, 1)
}

// Few periods even read the kernel's counters without a session, or where nothing happens; a new session is
// noticed in the next.
func TestAwake(t *testing.T) { synctest.Test(t, testAwake) }

func testAwake(t *testing.T) {
	o, k := newRegistry(t)
	read := &counted{Kernel: k}
	o.o.Kernel = read
	runs(t, o)
	go o.Look(t.Context())
	periods := func(n int) int {
		before := read.times.Load()
		time.Sleep(time.Duration(n) * o.o.Period)
		synctest.Wait()
		return int(read.times.Load() - before)
	}
	if n := periods(1 + 10*system.LooksApart); n > 12 {
		t.Errorf("without a session: %d of %d periods", n, 1+10*system.LooksApart)
	}
	require.NoError(t, o.Update(func(Tx) { session(t, o, k, 100) }))
	require.Equal(t, periods(system.LooksAfter), system.LooksAfter)
	require.Equal(t, periods(10*system.LooksApart), 10)
}

// counted counts how often the counters are read.
type counted struct {
	Kernel
	times atomic.Int64
}

func (c *counted) Counters() (map[string]uint64, error) {
	c.times.Add(1)
	return c.Kernel.Counters()
}
