//go:build linux

package tracer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// agent starts a program that execs under the name and then does what start does.
func agent(t *testing.T, name, script string) *workload {
	t.Helper()
	return start(t, "exec "+shellNamed(t, name)+" -c '"+script+"'")
}

func shellNamed(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.Symlink("/bin/sh", path))
	return path
}

func opened(t *testing.T, tr *tracer.Tracer, pid uint32) tracer.SessionInfo {
	t.Helper()
	var s tracer.SessionInfo
	until(t, "a session is opened", func() bool {
		e, err := tr.Lookup(pid)
		if err != nil || e.Session == 0 {
			return false
		}
		s, err = tr.Session(e.Session)
		return err == nil && s.Root.PID == pid
	})
	return s
}

// agentName is unique to this run: another run of these tests would open sessions for it.
var agentName = fmt.Sprintf("lngtest-%d", os.Getpid()) // at most 15 bytes

// A program with an agent's name is a session from its exec on.
func TestAgents(t *testing.T) { onEachSide(t, testAgents) }

func testAgents(t *testing.T, tr *tracer.Tracer) {
	require.NoError(t, tr.SetAgents([]tracer.Agent{
		{Comm: agentName, Grace: time.Minute},
		{Comm: "lngtest-other"},
	}))
	w := agent(t, agentName, "sleep 60 & echo $!; wait")
	w.goOn()
	child := parse(t, w.line())
	s := opened(t, tr, w.pid())
	if !s.Agent || s.Grace != time.Minute || s.Live != 2 || s.Parent != 0 {
		t.Errorf("%+v", s)
	}
	if e, err := tr.Lookup(w.pid()); err != nil || e.Evidence != tracer.EvidenceRoot || e.Source != tracer.SourceRule {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := tr.Lookup(child); err != nil || e.Session != s.ID {
		t.Errorf("%+v, %v", e, err)
	}
	// Without this agent the kernel opens nothing, and open sessions stay.
	for _, others := range [][]tracer.Agent{{{Comm: "lngtest-other"}}, nil} {
		require.NoError(t, tr.SetAgents(others))
		other := agent(t, agentName, "echo up; read go")
		other.goOn()
		other.until("up")
		_, err := tr.Lookup(other.pid())
		require.ErrorIs(t, err, tracer.ErrNotFound, "opened without a rule")
	}
	endAll(t, tr, s.ID, w)
	for _, bad := range [][]tracer.Agent{{{Comm: ""}}, {{Comm: "longer than fits"}}, {{Comm: "a"}, {Comm: "a"}}} {
		if err := tr.SetAgents(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// An agent whose exec the hook missed is found afterwards, with its child. What ran under the
// name before there was an agent, or was seen, is not touched.
func TestMissedAgents(t *testing.T) { onEachSide(t, testMissedAgents) }

func testMissedAgents(t *testing.T, tr *tracer.Tracer) {
	agents := []tracer.Agent{{Comm: agentName, Nests: true}}
	up := func(script string) *workload {
		w := agent(t, agentName, script+" & echo $!; wait")
		w.goOn()
		parse(t, w.line())
		return w
	}
	earlier := agent(t, agentName, "echo up; read go")
	earlier.goOn()
	earlier.until("up")
	require.NoError(t, tr.SetAgents(agents))
	// Its child has the same name and never execs.
	seen := up("(i=0; while [ $i -lt 60 ]; do sleep 1; i=$((i+1)); done)")
	back := tr.MissExecs()
	guarded := agent(t, agentName, "echo up; read go") // older than the others, and protected
	guarded.goOn()
	guarded.until("up")
	missed := up("sleep 60")
	around, id := startIn(t, tr, shellNamed(t, agentName)+" -c 'sleep 60 & echo $!; wait' & wait")
	around.goOn()
	parse(t, around.line())
	back()
	require.NoError(t, tr.SetAgents(agents)) // as in a reload of the policy
	require.NoError(t, tr.Protect(guarded.pid()))
	if n, err := tr.OpenMissedAgents(); n != 2 || err != nil {
		t.Errorf("%d opened, %v", n, err)
	}
	if e, err := tr.Lookup(guarded.pid()); err != nil || e.Session != 0 {
		t.Errorf("a protected process: %+v, %v", e, err)
	}
	s := opened(t, tr, missed.pid())
	if !s.Agent || s.Live != 2 || s.Parent != 0 {
		t.Errorf("%+v", s)
	}
	if s, err := tr.Session(id); err != nil || s.Nested != 1 || s.Live != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	_, err := tr.Lookup(earlier.pid())
	require.ErrorIs(t, err, tracer.ErrNotFound, "opened a session of an earlier process")
	if n, err := tr.OpenMissedAgents(); n != 0 || err != nil {
		t.Errorf("again: %d opened, %v", n, err)
	}
	for _, id := range []tracer.SessionID{s.ID, id, opened(t, tr, seen.pid()).ID} {
		require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	}
	for _, w := range []*workload{missed, around, seen} {
		w.gone()
		w.wait()
	}
}

// An agent whose exec was missed inside an agent's session is found: if the outer agent runs another program by then, and if
// a child had the agent's name before its exec, because a child has its creator's name. It is left there if its rule says so.
func TestMissedAgentInside(t *testing.T) {
	const exec = `exec $inner -c "sleep 60 & echo \$\$; wait"`
	for name, x := range map[string]struct {
		outer string
		known bool // the child was seen under the name
	}{
		"renamed":  {`exec /bin/sh -c "echo up; read go; \$inner -c \"sleep 60 & echo \\\$\\\$; wait\" & wait"`, false},
		"forked":   {"(echo up; read go; " + exec + "); wait", true},
		"born":     {"echo up; read go; (" + exec + "); wait", false},
		"no nests": {"echo up; read go; (" + exec + "); wait", false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := tracertest.New(t, tracer.Options{})
			nests := name != "no nests"
			require.NoError(t, tr.SetAgents([]tracer.Agent{{Comm: agentName, Nests: nests}}))
			path := shellNamed(t, agentName)
			w := start(t, "export inner="+path+"; exec "+path+" -c '"+x.outer+"'")
			w.goOn()
			w.until("up")
			outer := opened(t, tr, w.pid())
			if n, err := tr.OpenMissedAgents(); x.known && (n != 0 || err != nil) {
				t.Errorf("a child that never execed: %d opened, %v", n, err)
			}
			back := tr.MissExecs()
			w.goOn()
			pid := parse(t, w.line())
			back()
			if n, err := tr.OpenMissedAgents(); (n == 1) != nests || err != nil {
				t.Errorf("%d opened, %v", n, err)
			}
			if !nests {
				pid = w.pid()
			}
			if s := opened(t, tr, pid); (s.Parent == outer.ID) != nests || !s.Agent || nests && s.Live != 2 {
				t.Errorf("%+v", s)
			}
			require.NoError(t, tr.End(outer.ID, tracer.CauseEnd, 0))
			w.gone()
			w.wait()
		})
	}
}

// An agent inside a session opens one of its own only if its rule says so, and a root
// that becomes an agent keeps its session.
func TestAgentInside(t *testing.T) {
	for _, nests := range []bool{false, true} {
		tr := tracertest.New(t, tracer.Options{})
		require.NoError(t, tr.SetAgents([]tracer.Agent{{Comm: agentName, Nests: nests}}))
		path := filepath.Join(t.TempDir(), agentName)
		require.NoError(t, os.Symlink("/bin/sh", path))
		w, id := startIn(t, tr, "exec "+path+" -c '"+path+" -c \"echo \\$\\$; sleep 60 & wait\" & wait'")
		w.goOn()
		inner := parse(t, w.line())
		if e, err := tr.Lookup(w.pid()); err != nil || e.Session != id {
			t.Errorf("root: %+v, %v", e, err)
		}
		e, err := tr.Lookup(inner)
		if err != nil || (e.Session != id) != nests {
			t.Errorf("nests %v: %+v, %v", nests, e, err)
		}
		if s, err := tr.Session(e.Session); nests && (err != nil || s.Parent != id) {
			t.Errorf("%+v, %v", s, err)
		}
		endAll(t, tr, id, w)
	}
}

// Any user can run a program under an agent's name: no uid gets more sessions than its share.
func TestAgentLimit(t *testing.T) {
	dir := tracertest.Dir(t)
	tr := tracertest.New(t, tracer.Options{Dir: dir})
	require.NoError(t, tr.SetAgents([]tracer.Agent{{Comm: agentName}}))
	counts := func() *ebpf.Map {
		found, err := filepath.Glob(filepath.Join(dir, "*", "map_agent_uids"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		m, err := ebpf.LoadPinnedMap(found[0], nil)
		require.NoError(t, err)
		t.Cleanup(func() { m.Close() })
		return m
	}
	m := counts()
	const uid = 65534
	require.NoError(t, m.Put(uint32(uid), int64(4096)))
	root := agent(t, agentName, "read go")
	root.goOn()
	tr.End(opened(t, tr, root.pid()).ID, tracer.CauseEnd, 0)
	root.gone()
	w := agentOf(t, uid, "echo up; read go")
	w.goOn()
	w.until("up")
	_, err := tr.Lookup(w.pid())
	require.ErrorIs(t, err, tracer.ErrNotFound, "opened above the limit")
	if c, err := tr.Counters(); err != nil || c["agent_refused"] != 1 {
		t.Errorf("%v, %v", c, err)
	}
	require.NoError(t, m.Put(uint32(uid), int64(4095)))
	w.goOn()
	w.gone()
	w.wait()
	again := agentOf(t, uid, "read go; exit")
	again.goOn()
	s := opened(t, tr, again.pid())
	endAll(t, tr, s.ID, again)
	require.NoError(t, tr.Release(s.ID))
	var left int64
	if err := m.Lookup(uint32(uid), &left); err != nil || left != 4095 {
		t.Errorf("%d are counted, %v", left, err)
	}
	// However many uids had sessions, the next uid gets one too.
	for other := range m.MaxEntries() {
		require.NoError(t, m.Put(100000+other, int64(0)))
	}
	next := agentOf(t, uid-1, "read go")
	next.goOn()
	second := tracertest.New(t, other(tracer.Options{Dir: dir})) // counts what it takes over
	if err := counts().Lookup(uint32(uid-1), &left); err != nil || left != 1 {
		t.Errorf("%d are counted after a take-over, %v", left, err)
	}
	second.End(opened(t, second, next.pid()).ID, tracer.CauseEnd, 0)
	next.gone()
}

func agentOf(t *testing.T, uid uint32, script string) *workload {
	t.Helper()
	path := shellNamed(t, agentName)
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755))
	return startAs(t, uid, "exec "+path+" -c '"+script+"'")
}
