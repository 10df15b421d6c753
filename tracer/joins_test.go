//go:build linux

package tracer_test

import (
	"fmt"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
)

// forked waits until a process has n children that have executed a program of that name, and returns them.
func forked(t *testing.T, tr *tracer.Tracer, by uint32, comm string, n int) (children []uint32) {
	t.Helper()
	until(t, "children called "+comm, func() bool {
		children = nil
		require.NoError(t, tr.Snapshot(0, func(p *tracer.Process) error {
			if p.Parent.PID == by && p.Comm.String() == comm {
				children = append(children, p.PID)
			}
			return nil
		}))
		return len(children) == n
	})
	return children
}

// room starts a PID namespace, and returns the workload that made it and the process that is PID 1 there. It runs script
// after its first line.
func room(t *testing.T, tr *tracer.Tracer, script string) (outside *workload, first uint32) {
	t.Helper()
	w := start(t, "exec unshare -p -f sh -c 'echo up; read go; "+script+"; read go'")
	w.goOn()
	w.until("up")
	return w, forked(t, tr, w.pid(), "sh", 1)[0]
}

// putIn starts a shell in the namespace of a process, as runc exec does.
func putIn(first uint32, script string) string {
	return fmt.Sprintf("exec nsenter -t %d -p sh -c 'echo up; read go; %s'", first, script)
}

// A process that is put into a PID namespace is the root of a session from its exec on, and what else is in there is in
// none; or PID 1 of the namespace is, with all that it starts.
func TestJoins(t *testing.T) { onEachSide(t, testJoins) }

func testJoins(t *testing.T, tr *tracer.Tracer) {
	inNone := func(what string, pids ...uint32) {
		t.Helper()
		for _, pid := range pids {
			_, err := tr.Lookup(pid)
			require.ErrorIs(t, err, tracer.ErrNotFound, what)
		}
	}
	home, first := room(t, tr, "sleep 60 & (sleep 61 &)")
	early := start(t, putIn(first, ":"))
	early.goOn()
	early.until("up")
	inNone("put in before sessions are opened for that", forked(t, tr, early.pid(), "sh", 1)...)
	tr.SetJoins(true, false)
	require.NoError(t, tr.SetAgents(nil)) // which changes nothing of it
	home.goOn()
	inNone("a child of PID 1, and an orphan", forked(t, tr, first, "sleep", 2)...)
	other, its := room(t, tr, ":")
	other.goOn()
	inNone("PID 1 of a room", its)

	w := start(t, putIn(first, "(sleep 62; exit) & exit 0"))
	w.goOn()
	w.until("up")
	root := forked(t, tr, w.pid(), "sh", 1)[0]
	s := opened(t, tr, root)
	if !s.Agent || !s.Joined || s.Rule != 0 || s.Live != 1 || s.Parent != 0 {
		t.Errorf("%+v", s)
	}
	if e, err := tr.Lookup(root); err != nil || e.Evidence != tracer.EvidenceRoot || e.Source != tracer.SourceJoin || e.Creator.PID != w.pid() {
		t.Errorf("%+v, %v", e, err)
	}
	w.goOn()
	w.wait() // not for its output: what it left holds that
	if s, err := tr.Session(s.ID); err != nil || s.State != tracer.StateActive || s.Live == 0 {
		t.Errorf("before there are terms: %+v, %v", s, err)
	}
	require.NoError(t, tr.SetTerms(s.ID, tracer.SessionSpec{Name: "known", Rule: 3}))
	sentence(t, tr)
	w.gone()
	if s = settled(t, tr, s.ID); !s.Joined || s.Name != "known" || s.Cause != tracer.CauseRootExit {
		t.Errorf("%+v", s)
	}
	require.NoError(t, tr.Release(s.ID))

	member, id := startIn(t, tr, putIn(first, ":"))
	member.goOn()
	member.until("up")
	if e, err := tr.Lookup(forked(t, tr, member.pid(), "sh", 1)[0]); err != nil || e.Session != id {
		t.Errorf("a member that was put in: %+v, %v", e, err)
	}
	tr.SetJoins(false, true)
	late := start(t, putIn(first, ":"))
	late.goOn()
	late.until("up")
	inNone("put in afterwards", forked(t, tr, late.pid(), "sh", 1)...)
	another, main := room(t, tr, "sleep 63 & (sleep 64 &)")
	c := opened(t, tr, main)
	if !c.Agent || !c.Joined || c.Rule != 0 || c.Live != 1 || c.Parent != 0 {
		t.Errorf("%+v", c)
	}
	another.goOn()
	forked(t, tr, main, "sleep", 2)
	require.NoError(t, tr.End(c.ID, tracer.CauseEnd, 0))
	sentence(t, tr)
	another.gone()
	settled(t, tr, c.ID)
	tr.SetJoins(false, false)
	for _, w := range []*workload{early, member, late, other} {
		w.goOn()
		w.wait()
	}
	inNone("PID 1", first)
	home.goOn() // the whole room ends with it
	home.wait()
	home.gone()
	require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	settled(t, tr, id)
}
