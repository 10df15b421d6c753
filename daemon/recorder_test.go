//go:build linux

package daemon

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/journal"
	"github.com/rs/zerolog"
)

// However much there is to write, a turn of the recorder ends: in a storm the
// time is the registry's.
func TestRecorderTurn(t *testing.T) {
	w := newWorld(t, withoutHistory)
	j := journal.Open(filepath.Join(t.TempDir(), "history.db"), journal.Options{})
	defer j.Close()
	w.session("user", 100, api.NewSession{})
	o := w.s.registry
	r := newRecorder(o, w.s.ring, j, w.s.bootID, w.s.clock, w.s.rules.Policy, zerolog.Nop())
	first := r.next
	for range 3 * journal.MaxBlock {
		w.k.Exec(100, "/bin/a", "a\x00")
	}
	w.until(func() bool { return w.s.ring.End() >= first+3*journal.MaxBlock })
	if r.flush(0); r.next != first {
		t.Errorf("%d events in a turn that was over", r.next-first)
	}
	if r.flush(time.Nanosecond); r.next-first >= 2*journal.MaxBlock {
		t.Errorf("%d events in a turn for one batch", r.next-first)
	}
	if r.flush(time.Minute); r.next-first < 3*journal.MaxBlock {
		t.Errorf("%d events when there was time for all", r.next-first)
	}
}

// A turn with nothing to write takes next to no memory: there are four a second.
func TestRecorderAtRest(t *testing.T) {
	w := newWorld(t, withoutHistory)
	j := journal.Open(filepath.Join(t.TempDir(), "history.db"), journal.Options{})
	defer j.Close()
	r := newRecorder(w.s.registry, w.s.ring, j, w.s.bootID, w.s.clock, w.s.rules.Policy, zerolog.Nop())
	r.flush(time.Minute)
	const turns = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range turns {
		r.flush(time.Minute)
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / turns; n > 16<<10 {
		t.Errorf("%d bytes a turn", n)
	}
}
