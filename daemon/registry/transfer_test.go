//go:build linux

package registry

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// inside opens a session over a child of a member.
func inside(t *testing.T, o *Registry, k *kerneltest.Kernel, parent, pid uint32) *Session {
	t.Helper()
	k.Fork(parent, pid, "lngtest-nested")
	s, err := Tx{o.view()}.Create(tracer.SessionSpec{Root: k.Proc(pid).Identity, UID: 1000})
	require.NoError(t, err)
	return s
}

// TestLetGoOutOfOrder: two sessions are dissolved at the same time, and the inner one is let
// go of first, after it was seen in the session around both.
func TestLetGoOutOfOrder(t *testing.T) {
	o, k := newRegistry(t)
	outer := session(t, o, k, 100)
	middle := inside(t, o, k, 100, 101)
	inner := inside(t, o, k, 101, 102)
	for _, s := range []*Session{middle, inner} {
		_, err := k.Dissolve(s.info.ID)
		require.NoError(t, err)
		o.view().Refresh(inner)
	}
	require.Equal(t, inner.info.Parent, outer.info.ID)
	Tx{o.view()}.LetGo(inner.info.ID)
	Tx{o.view()}.LetGo(middle.info.ID)
	if family := o.view().Family(outer.info.ID); len(family) != 1 {
		t.Errorf("nested in the outer session: %v", family[1:])
	}
}

// TestHandOverToOneThatIsOver: the first process exits before the second one is moved, and the
// kernel closes their session: the second one is kept by another session, and not killed.
func TestHandOverToOneThatIsOver(t *testing.T) {
	o, k := newRegistry(t)
	from := session(t, o, k, 100)
	k.Fork(100, 101, "lngtest-first")
	k.Fork(100, 102, "lngtest-second")
	go o.Run(t.Context())
	all := []tracer.Identity{k.Proc(101).Identity, k.Proc(102).Identity}
	spec := tracer.SessionSpec{Root: all[0], UID: 1000, KeptFrom: from.info.ID, MaxLifetime: time.Hour}
	var made []tracer.SessionID
	info, err := o.HandOver(spec, all, func(_ View, s *Session) {
		if made = append(made, s.info.ID); len(made) == 1 {
			k.Exit(101, 0)
			if _, err := k.Settle(s.info.ID); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || len(made) != 2 || info.ID != made[1] || info.Root != all[1] {
		t.Fatalf("%v: %+v, %v", made, info, err)
	}
	if p := k.Proc(102); p.Dead || p.Session != made[1] {
		t.Errorf("%+v", p)
	}
}

// TestNestedInADissolvedOne: once the outer session is let go of, the inner one is nested in the
// session around both, before any look.
func TestNestedInADissolvedOne(t *testing.T) {
	o, k := newRegistry(t)
	outer := session(t, o, k, 100)
	middle := inside(t, o, k, 100, 101)
	inner := inside(t, o, k, 101, 102)
	_, err := k.Dissolve(middle.info.ID)
	require.NoError(t, err)
	Tx{o.view()}.LetGo(middle.info.ID)
	if inner.info.Parent != outer.info.ID || len(o.view().Family(outer.info.ID)) != 2 {
		t.Errorf("nested in %v, want %v; family %v", inner.info.Parent, outer.info.ID, o.view().Family(outer.info.ID))
	}
	if len(o.looks.unreleased) == 0 {
		t.Error("the next look does not try again to release the record")
	}
}
