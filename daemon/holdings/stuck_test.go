//go:build linux

package holdings

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
)

// A process of which procfs does not answer is named as unknown; others are read.
func TestStuckProcess(t *testing.T) {
	stuck := procfstest.Stuck(t)
	r := NewReader("/proc", func(pid uint32) (tracer.Identity, error) { return tracer.Identity{PID: pid, Start: 1}, nil })
	r.sameFiles = func(int, int) (bool, error) { return true, nil }
	f, err := os.Create(t.TempDir() + "/lngtest.lock")
	require.NoError(t, err)
	defer f.Close()
	both := []tracer.Identity{{PID: stuck, Start: 1}, {PID: uint32(os.Getpid()), Start: 1}}
	done := make(chan Held, 1)
	ctx, cancel := context.WithTimeout(t.Context(), require.Slowed(10*time.Second))
	defer cancel()
	go func() {
		done <- r.Of(ctx, both)
	}()
	var held Held
	select {
	case held = <-done:
	case <-ctx.Done():
		t.Fatal("it hangs")
	}
	found := false
	for _, l := range held.Locks {
		found = found || l.Path == f.Name() && l.Holder == both[1]
	}
	if !found {
		t.Errorf("the lock file of another process is not found: %+v", held)
	}
	if r.CPUElsewhere() <= 0 {
		t.Error("the CPU time of reads that may be left is not counted")
	}
	// Of the host only this test's own processes are of interest.
	walked := make(chan error, 1)
	go func() {
		walked <- r.openOn(ctx, func(link string) bool { return link == f.Name() }, func(*descriptor, tracer.Identity) {})
	}()
	select {
	case err := <-walked:
		if _, hidden := errors.AsType[hiddenError](err); err != nil && !hidden {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("the walk over the host hangs")
	}
}
