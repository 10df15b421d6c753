//go:build linux

package rules_test

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/daemontest"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// On an idle host no hook runs that would see that a lifetime has expired: the daemon's
// own look does.
func TestLifetimeOnAnIdleHost(t *testing.T) {
	w := newWorld(t)
	s := w.Session("user", 100, api.NewSession{MaxLifetimeMS: 2000, GraceMS: daemontest.MS(0)})
	look := func() {
		t.Helper()
		if _, err := w.Service.Registry.Resync(registry.CauseRequest); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if info, err := w.K.Session(w.ID(s.ID)); err != nil || info.Cause != 0 {
		t.Fatalf("before: %+v, %v", info, err)
	}
	w.K.Advance(3 * time.Second)
	look()
	if r := w.Receipt(s.ID); r.EndReason != "max_lifetime" || r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
}
