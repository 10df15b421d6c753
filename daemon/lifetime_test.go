//go:build linux

package daemon

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// On an idle host no hook runs that would see that a lifetime has expired: the daemon's
// own look does.
func TestLifetimeOnAnIdleHost(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{MaxLifetimeMS: 2000, GraceMS: ms(0)})
	look := func() {
		t.Helper()
		if _, err := w.s.registry.Resync(registry.CauseRequest); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if info, err := w.k.Session(w.id(s.ID)); err != nil || info.Cause != 0 {
		t.Fatalf("before: %+v, %v", info, err)
	}
	w.k.Advance(3 * time.Second)
	look()
	if r := w.receipt(s.ID); r.EndReason != "max_lifetime" || r.Verdict != "clean" {
		t.Errorf("%+v", r)
	}
}
