//go:build linux

package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

// forks returns batches of births and deaths of one session's members, to a daemon with
// all its features.
func forks(t *testing.T) (r *registry.Registry, batch func() []tracer.Event) {
	k := kerneltest.New()
	k.Add(100, 1, "lngtest-root")
	id, err := k.Create(tracer.SessionSpec{Root: k.Proc(100).Identity})
	require.NoError(t, err)
	c := registry.Clock{Monotonic: k.Now, Boottime: func() uint64 { return uint64(k.Now()) }, Clock: func() time.Time { return time.Unix(0, 0) }}
	policy, err := rules.Load("", false, c)
	require.NoError(t, err)
	h := Host{Clock: c, Proc: procfs.FS(t.TempDir()), Manager: &system.Manager{}}
	s := h.build(parts{kernel: k, self: tracer.Identity{PID: 1}, audit: new(access.AuditLog), rules: policy, commands: t.TempDir() + "/commands.json", log: zerolog.Nop()}, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	go s.Registry.Run(ctx)
	t.Cleanup(func() { cancel(); <-s.Registry.Done() })
	root := k.Proc(100).Identity
	pid, now := uint32(1000), uint64(k.Now())
	events := make([]tracer.Event, 0, 768)
	return s.Registry, func() []tracer.Event {
		events = events[:0]
		for range 256 {
			pid, now = pid+1, now+1000
			if pid == 32000 {
				pid = 1000
			}
			p := tracer.Identity{PID: pid, Start: now}
			events = append(events,
				tracer.Event{Type: tracer.EventBirth, Time: now, Process: p, Session: id, Evidence: tracer.EvidenceFork,
					Creator: root, Parent: root, Looks: lineage.Looks{Comm: tracer.Comm{'x'}}},
				tracer.Event{Type: tracer.EventExit, Time: now + 1, Process: p, Session: id},
				tracer.Event{Type: tracer.EventReaped, Time: now + 2, Process: p, Session: id})
		}
		return events
	}
}

// TestApplyAllocates: nothing is allocated for forks and exits in steady state.
func TestApplyAllocates(t *testing.T) {
	r, batch := forks(t)
	err := r.Update(func(tx registry.Tx) {
		for range 400 { // more than the ring and the history hold
			tx.Apply(batch())
		}
		if n := testing.AllocsPerRun(100, func() { tx.Apply(batch()) }); n > 2 { // a batch's wake-up
			t.Errorf("%v allocations a batch of 768 events", n)
		}
	})
	require.NoError(t, err)
}
