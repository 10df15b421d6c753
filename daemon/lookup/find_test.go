//go:build linux

package lookup

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/tracer"
)

// records is a kernel with sessions of any id.
type records struct {
	*kerneltest.Kernel
	all map[tracer.SessionID]tracer.SessionInfo
}

func (k records) Session(id tracer.SessionID) (tracer.SessionInfo, error) { return k.all[id], nil }

// TestLiveOfTheSameID: a live session that the kernel opened under the id of an ended one is found.
func TestLiveOfTheSameID(t *testing.T) {
	const ended, live = 7<<32 | 1, 7<<32 | 2
	f := registrytest.New(t, func(o *registry.Options) {
		o.Kernel = records{o.Kernel.(*kerneltest.Kernel), map[tracer.SessionID]tracer.SessionInfo{
			ended: {ID: ended, UID: 1000, Name: "over"}, live: {ID: live, UID: 1000, Created: 1 << 60},
		}}
	})
	f.Run()
	f.Update(func(tx registry.Tx) { tx.Ask(ended); tx.Ask(live) })
	for range 2 { // it waits a while for the event of the end
		f.R.Judged(enforcer.Result{Session: ended, Gone: true, Verdict: api.VerdictClean})
		f.K.Advance(time.Minute)
	}
	f.Update(func(tx registry.Tx) {
		if !tx.Session(ended).Closed() {
			t.Error("it has not ended")
		}
		if got, err := find(tx.View, tracer.SessionID(ended).String(), access.Caller{}); err != nil || got.ID() != live {
			t.Errorf("%v, %v", got, err)
		}
	})
}
