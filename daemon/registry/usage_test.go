//go:build linux

package registry

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestUsage: what a member used counts once, whether it lives, has exited since the last look,
// was seen by a look that began before its exit, or is not seen any more; and the session's
// document says the same right after its end and later.
func TestUsage(t *testing.T) {
	o, k := newRegistry(t)
	s := session(t, o, k, 100)
	k.Fork(100, 101, "lngtest-busy")
	used := func(pid uint32, cpu time.Duration, rss uint64) {
		k.Edit(pid, func(p *kerneltest.Proc) { p.CPUTime, p.RSS = uint64(cpu), rss })
	}
	look := func() {
		k.Advance(time.Second)
		now, seen, err := o.looks.snapshot()
		require.NoError(t, err)
		o.looks.repaired(&Resync{}, now, o.sampled(now, seen))
	}
	exit := func(pid uint32, cpu time.Duration) {
		o.apply([]tracer.Event{{Type: tracer.EventExit, Time: uint64(k.Now()) + 1, Process: k.Proc(pid).Identity, Session: s.info.ID, CPUTime: uint64(cpu)}})
	}
	want := func(when string, cpu time.Duration, rss uint64) {
		t.Helper()
		if u := o.view().Usage(s); u.CPU != cpu || u.RSS != rss {
			t.Errorf("%s: CPU %v, RSS %d, want %v and %d", when, u.CPU, u.RSS, cpu, rss)
		}
	}
	used(100, time.Second, 10)
	used(101, 2*time.Second, 20)
	look()
	want("both live", 3*time.Second, 30)
	now, seen, err := o.looks.snapshot()
	require.NoError(t, err)
	exit(101, 4*time.Second)
	want("one has exited since the look", 5*time.Second, 10)
	o.sampled(now, seen)
	want("seen by a look that began before the exit", 5*time.Second, 10)
	k.Edit(101, func(p *kerneltest.Proc) { p.Dead, p.Zombie = true, true })
	look()
	want("the next look", 5*time.Second, 10)
	exit(100, 6*time.Second)
	want("both have exited", 10*time.Second, 0)
	over(o, s)
	want("over", 10*time.Second, 0)
	k.Edit(100, func(p *kerneltest.Proc) { p.Dead, p.Zombie = true, true })
	look()
	require.Equal(t, o.view().Document(s, access.Caller{}).CPUSeconds, 10)
}
