//go:build linux

package holdings

import (
	"runtime"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// CPUElsewhere is the CPU time that was used in other threads than the callers'.
func (r *Reader) CPUElsewhere() time.Duration { return time.Duration(r.elsewhere.Load()) }

// countCPU counts the CPU time of this goroutine until what it returns is called.
func (r *Reader) countCPU() func() {
	runtime.LockOSThread()
	began := system.ThreadTime()
	return func() {
		r.elsewhere.Add(int64(system.ThreadTime() - began))
		runtime.UnlockOSThread()
	}
}

// bounded is [procfs.Bounded] for reads of p.
func bounded[T any](p *process, read func() (T, error)) (T, error) {
	if p.bounded {
		return read()
	}
	return procfs.Bounded(procfs.KeyOf(p.path), func() (T, error) {
		defer p.r.countCPU()()
		return read()
	})
}
