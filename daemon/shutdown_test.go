//go:build linux

package daemon_test

import (
	"sync/atomic"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// watched is a kernel that notices calls after it was released.
type watched struct {
	*kerneltest.Kernel
	closed atomic.Bool
	late   atomic.Int64
}

func (k *watched) Session(id tracer.SessionID) (tracer.SessionInfo, error) {
	if k.closed.Load() {
		k.late.Add(1)
	}
	return k.Kernel.Session(id)
}

func (k *watched) Close() error {
	k.closed.Store(true)
	return k.Kernel.Close()
}

// A closed descriptor may belong to another file by the time it is used.
func TestNobodyAsksAClosedKernel(t *testing.T) {
	k := &watched{}
	w := daemontest.New(t, func(w *daemontest.Daemon) {
		k.Kernel = w.K
		w.Host.Open = func(tracer.Options) (daemon.Kernel, error) { return k, nil }
	})
	w.Session("user", 100, api.NewSession{})
	w.Halt()
	if !k.closed.Load() || k.late.Load() > 0 {
		t.Errorf("closed %v, %d questions after that", k.closed.Load(), k.late.Load())
	}
}
