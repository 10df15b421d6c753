//go:build linux

package registry

import (
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
)

// TestLetGoOutOfOrder: two sessions are dissolved at the same time, and the inner one is let
// go of first, after it was seen in the session around both.
func TestLetGoOutOfOrder(t *testing.T) {
	o, k := newRegistry(t)
	outer := session(t, o, k, 100)
	nested := func(parent, pid uint32) *Session {
		k.Fork(parent, pid, "lngtest-nested")
		s, err := o.create(tracer.SessionSpec{Root: k.Proc(pid).Identity, UID: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	middle := nested(100, 101)
	inner := nested(101, 102)
	for _, s := range []*Session{middle, inner} {
		if _, err := k.Dissolve(s.info.ID); err != nil {
			t.Fatal(err)
		}
		o.view().Refresh(inner)
	}
	if inner.info.Parent != outer.info.ID {
		t.Fatalf("nested in %v, want %v", inner.info.Parent, outer.info.ID)
	}
	o.letGo(inner.info.ID)
	o.letGo(middle.info.ID)
	if family := o.view().Family(outer.info.ID); len(family) != 1 {
		t.Errorf("nested in the outer session: %v", family[1:])
	}
}
