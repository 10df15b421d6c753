//go:build linux

package daemon

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/daemon/access"
)

// forks gives batches of births and deaths of one session's members, to a daemon with
// all its features.
func forks(tb testing.TB) (o *Registry, batch func() []tracer.Event) {
	k := kerneltest.New()
	k.Add(100, 1, "lngtest-root")
	id, err := k.Create(tracer.SessionSpec{Root: k.Proc(100).Identity})
	if err != nil {
		tb.Fatal(err)
	}
	c := clock{monotonic: k.Now, boottime: func() uint64 { return uint64(k.Now()) }, Clock: func() time.Time { return time.Unix(0, 0) }}
	h := host{clock: c, proc: procfs.FS(tb.TempDir())}
	s := h.server(k, tracer.Identity{PID: 1}, silence{}, Options{}, &rules{started: policy.Default(), current: policy.Default(), clock: c, breaker: enforcer.NewBreaker(10, k.Now)}, zerolog.Nop())
	o = s.registry
	root := k.Proc(100).Identity
	pid, now := uint32(1000), uint64(k.Now())
	events := make([]tracer.Event, 0, 768)
	return o, func() []tracer.Event {
		events = events[:0]
		for range 256 {
			pid, now = pid+1, now+1000
			if pid == 32000 {
				pid = 1000
			}
			p := tracer.Identity{PID: pid, Start: now}
			events = append(events,
				tracer.Event{Type: tracer.EventBirth, Time: now, Process: p, Session: id, Evidence: tracer.EvidenceFork, Creator: root, Parent: root, Comm: tracer.Comm{'x'}},
				tracer.Event{Type: tracer.EventExit, Time: now + 1, Process: p, Session: id},
				tracer.Event{Type: tracer.EventReaped, Time: now + 2, Process: p, Session: id})
		}
		return events
	}
}

// TestApplyAllocates nothing for forks and exits in steady state.
func TestApplyAllocates(t *testing.T) {
	o, batch := forks(t)
	for range 400 { // more than the ring and the history hold
		o.apply(batch())
	}
	if n := testing.AllocsPerRun(100, func() { o.apply(batch()) }); n > 2 { // a batch's wake-up
		t.Errorf("%v allocations a batch of 768 events", n)
	}
}

// TestReadersWait: what changes something, and what root asks, does not wait for
// all who read.
func TestReadersWait(t *testing.T) {
	w := newWorld(t)
	o := w.s.registry
	held, free := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { o.do(func() { close(held); <-free }) })
	<-held
	const readers = 200
	var order []string // of the registry's goroutine
	var coming atomic.Int64
	ask := func(who string, ask func(func()) error) {
		wg.Go(func() {
			coming.Add(1)
			if err := ask(func() { order = append(order, who) }); err != nil {
				t.Error(err)
			}
		})
	}
	for range readers {
		ask("user reads", func(f func()) error { return o.read(access.Caller{UID: 1000}, f) })
		ask("member reads", func(f func()) error { return o.read(access.Caller{Member: 7}, f) })
	}
	w.until(func() bool { return coming.Load() == 2*readers })
	ask("root reads", func(f func()) error { return o.read(access.Caller{}, f) })
	ask("somebody ends", o.do)
	w.until(func() bool { return coming.Load() == 2*readers+2 })
	time.Sleep(20 * time.Millisecond) // nothing says that a goroutine waits at its channel
	close(free)
	wg.Wait()
	for _, who := range []string{"root reads", "somebody ends"} {
		if at := slices.Index(order, who); at > 3 {
			t.Errorf("%s as number %d of %d", who, at, len(order))
		}
	}
}

func BenchmarkApply(b *testing.B) {
	o, batch := forks(b)
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		ev := batch()
		o.apply(ev)
		events += len(ev)
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
