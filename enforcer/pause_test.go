//go:build linux

package enforcer

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestPause: a member of a paused session that somebody continues is stopped again, until the resume.
func TestPause(t *testing.T) {
	k := kerneltest.New()
	k.Add(100, 1, "lngtest-root")
	id, err := k.Create(tracer.SessionSpec{Root: k.Proc(100).Identity, Grace: time.Minute})
	require.NoError(t, err)
	k.Fork(100, 101, "lngtest-a")
	e := New(k, Options{Clock: k.Now})
	left, err := e.Pause(t.Context(), id)
	if err != nil || len(left) > 0 || !k.Proc(101).Stopped {
		t.Fatalf("left %v: %v", left, err)
	}
	for range 3 {
		k.Edit(101, func(p *kerneltest.Proc) { p.Stopped = false })
		e.Watch(id) // as the event of the SIGCONT does
		for range 100 {
			if k.Proc(101).Stopped {
				break
			}
			wait, over := e.Step()
			if wait < 0 || len(over) > 0 {
				t.Fatalf("wait %v, over %+v", wait, over)
			}
			require.Equal(t, e.Running(id), 1)
			k.Advance(wait)
		}
		if !k.Proc(101).Stopped {
			t.Fatal("it runs")
		}
		if k.Advance(noticed); e.Running(id) != 0 {
			t.Fatal("it counts as running after it was stopped")
		}
	}
	require.NoError(t, e.Resume(id))
	if over := settle(t, k, e); over != nil || k.Proc(101).Stopped {
		t.Errorf("over %+v, stopped: %v", over, k.Proc(101).Stopped)
	}

	// What sleeps in the kernel does not stop, and is named.
	k.Edit(101, func(p *kerneltest.Proc) { p.Stubborn = true })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if left, err := e.Pause(ctx, id); err != nil || len(left) != 1 || left[0].PID != 101 {
		t.Errorf("left %v: %v", left, err)
	}
	k.Edit(101, func(p *kerneltest.Proc) { p.Stubborn = false })
	require.NoError(t, e.End(id, tracer.CauseEnd, time.Minute))
	clean(t, k, e)
	if _, err := e.Pause(t.Context(), id); err == nil || e.Resume(99) == nil {
		t.Error("paused or resumed what is over, or no session")
	}
}

// TestPauseAgrees: a pause does not return with a member that was stopped for a moment only: it is continued after the first look.
func TestPauseAgrees(t *testing.T) {
	k := kerneltest.New()
	k.Add(100, 1, "lngtest-root")
	id, err := k.Create(tracer.SessionSpec{Root: k.Proc(100).Identity})
	require.NoError(t, err)
	k.Fork(100, 101, "lngtest-a")
	ctx, cancel := context.WithTimeout(t.Context(), 4*maxPause)
	defer cancel()
	first := sync.OnceFunc(func() { k.Edit(101, func(p *kerneltest.Proc) { p.Stopped = false }) })
	if left, err := New(looked{k, first}, Options{Clock: k.Now}).Pause(ctx, id); err != nil || len(left) != 1 || left[0].PID != 101 {
		t.Errorf("left %v: %v", left, err)
	}
}
