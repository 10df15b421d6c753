//go:build linux

package registry

import (
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestStarted: a receipt counts the members that were forked, the root, and those that ran when
// they were entered: adopted, in the session and those around it, or moved from another one.
func TestStarted(t *testing.T) {
	o, k := newRegistry(t)
	runs(t, o)
	adopt := func(pid uint32) (s *Session) {
		t.Helper()
		info, _, err := o.Adopt(tracer.SessionSpec{Root: k.Proc(pid).Identity, UID: 1000, Adopted: true}, 0)
		require.NoError(t, err)
		_ = o.Update(func(tx Tx) {
			s = tx.Session(info.ID)
			tx.Refresh(s)
		})
		return s
	}
	want := func(what string, s *Session, started int) {
		t.Helper()
		_ = o.Read(func(v View) {
			v.Refresh(s)
			r, d := v.Report(s, access.Caller{}), v.Document(s, access.Caller{})
			if r.Started != started || d.Forks+1+d.Joined != started {
				t.Errorf("%s: %d started, %d forks and %d joined, want %d", what, r.Started, d.Forks, d.Joined, started)
			}
		})
	}
	k.Add(100, 1, "lngtest-npm")
	k.Add(101, 100, "lngtest-sh")
	k.Add(102, 101, "lngtest-node")
	outer := adopt(100)
	require.Equal(t, len(o.looks.asked), 1) // the next look may be far away
	_ = o.Update(func(tx Tx) {
		for pid := uint32(100); pid < 103; pid++ {
			ev := tracer.Event{Type: tracer.EventBirth, Time: 1, Process: k.Proc(pid).Identity, Session: outer.info.ID, Evidence: tracer.EvidenceAdopted}
			if pid == 100 {
				ev.Evidence = tracer.EvidenceRoot
			}
			tx.Apply([]tracer.Event{ev})
		}
	})
	want("adopted", outer, 3)
	k.Fork(101, 103, "lngtest-child")
	want("forked", outer, 4)
	inner := adopt(101) // with 102 and 103
	want("nested", inner, 3)
	k.Add(104, 1, "lngtest-broker")
	_ = o.Update(func(tx Tx) {
		tx.Apply([]tracer.Event{{Type: tracer.EventBirth, Time: 2, Process: k.Proc(104).Identity, Session: inner.info.ID, Evidence: tracer.EvidenceAdopted}})
	})
	want("entered in the nested session", inner, 4)
	want("the session around it", outer, 5)
	_ = o.Update(func(tx Tx) {
		text, err := EncodeMemory(tx.Memory(inner), func(argv []string) []string { return argv })
		require.NoError(t, err)
		inner.joined = 0
		tx.restore(inner, text)
	})
	want("after a restart", inner, 4)
}
