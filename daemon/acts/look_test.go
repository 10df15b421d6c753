//go:build linux

package acts

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

type walking struct {
	*kerneltest.Kernel
	walks int
}

func (k *walking) Snapshot(id tracer.SessionID, each func(*tracer.Process) error) error {
	k.walks++
	return k.Kernel.Snapshot(id, each)
}

// TestOneLook: an order to end many sessions looks at the host as often as that of one: for the guards, and for what the
// members hold.
func TestOneLook(t *testing.T) {
	k := &walking{}
	f := registrytest.New(t, func(o *registry.Options) { k.Kernel, o.Kernel = o.Kernel.(*kerneltest.Kernel), k })
	held := holdings.New(holdings.Options{Ground: f.Ground()}) // without its hooks: no look when the end has begun
	f.Run()
	a := New(Options{Ground: f.Ground(), Holdings: held, Enforcer: enforcer.New(k, enforcer.Options{Clock: k.Now})})
	for _, sessions := range []uint32{1, 20} {
		target := &Target{}
		for pid := range sessions {
			target.Sessions = append(target.Sessions, f.Session(1000*sessions+pid, 1000).Info())
		}
		k.walks = 0
		_, err := a.End(target, &Order{Grace: time.Minute})
		require.NoError(t, err)
		if k.walks != 2 {
			t.Errorf("an end of %d sessions looked %d times", sessions, k.walks)
		}
	}
}
