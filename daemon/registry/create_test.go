//go:build linux

package registry

import (
	"errors"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestSessionsOfAllAreLimited: the last slots are for root.
func TestSessionsOfAllAreLimited(t *testing.T) {
	o, k := newRegistry(t)
	for id := tracer.SessionID(1 << 40); id < 1<<40+maxSessions-1; id++ {
		o.sessions[id] = &Session{info: tracer.SessionInfo{ID: id}, over: make(chan struct{})}
	}
	ask := func(uid, pid uint32) error {
		k.Add(pid, 1, "lngtest-root")
		_, err := Tx{o.view()}.Create(tracer.SessionSpec{Root: k.Proc(pid).Identity, UID: uid})
		return err
	}
	if err := ask(1000, 100); err != nil {
		t.Error(err)
	}
	if e, ok := errors.AsType[*api.Error](ask(1001, 101)); !ok || e.Code != api.CodeTooMany {
		t.Errorf("one more: %v", e)
	}
	if err := ask(0, 102); err != nil {
		t.Errorf("root: %v", err)
	}
}
