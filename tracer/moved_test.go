//go:build linux

package tracer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// group makes a cgroup of a hierarchy, and removes it after the test, when all in it are dead. "": it is not mounted.
func group(t *testing.T, kind, option string) (dir string, id uint64) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	require.NoError(t, err)
	root := ""
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[2] == kind && strings.Contains(","+f[3]+",", option) {
			root = f[1]
		}
	}
	if root == "" {
		return "", 0
	}
	dir, err = os.MkdirTemp(root, "lngtest-")
	require.NoError(t, err)
	t.Cleanup(func() { until(t, "empty cgroup", func() bool { return os.Remove(dir) == nil }) })
	var st unix.Stat_t
	require.NoError(t, unix.Stat(dir, &st))
	return dir, st.Ino
}

// TestMoved: who leaves the cgroup of its session is reported each time, by whichever way, and nobody else.
func TestMoved(t *testing.T) { onEachSide(t, testMoved) }

func testMoved(t *testing.T, tr *tracer.Tracer) {
	const times = 20
	dir, id := group(t, "cgroup2", "")
	if dir == "" {
		t.Skip("no cgroup2 is mounted")
	}
	root := filepath.Dir(dir)
	w, session := member(t, tr, obeys, tracer.SessionSpec{})
	self := identify(t, tr, uint32(os.Getpid()))
	tell := func(command string, args ...any) {
		t.Helper()
		w.tell(fmt.Sprintf(command, args...))
		if result := w.until("= "); result != "= 0" {
			t.Fatalf("%s: %s", command, result)
		}
	}
	put := func(pid uint32, dir string) {
		t.Helper()
		require.NoError(t, os.WriteFile(dir+"/cgroup.procs", fmt.Append(nil, pid), 0))
	}
	tell("sh -c 'echo 0 >%s/cgroup.procs'", dir) // before anybody asked
	require.NoError(t, tr.WatchMoves(session))
	require.NoError(t, tr.SetTerms(session, tracer.SessionSpec{KeepOnRootExit: true}))
	outside := outsider(t, ":")
	put(outside.pid(), dir)
	put(outside.pid(), root)
	if v1, _ := group(t, "cgroup", ",freezer,"); v1 != "" {
		put(w.pid(), v1)
		put(w.pid(), filepath.Dir(v1))
	}
	program, err := filepath.Abs("../bin/testdata/lngtest-cgroup")
	require.NoError(t, err)
	hold := fifo(t)
	tell("(read go <%s; exit 0) & echo pid $!", hold)
	for range times {
		tell("sh -c 'echo 0 >%s/cgroup.procs'", dir) // it exits within 5 ms
		put(w.pid(), dir)
		put(w.pid(), root)
		tell("%s into %s >/dev/null & born=$!; until grep -q . %[2]s/cgroup.procs; do :; done; kill -9 $born $(cat %[2]s/cgroup.procs); wait $born || true", program, dir)
	}
	require.NoError(t, os.WriteFile(hold, []byte("\n"), 0))
	require.NoError(t, tr.End(session, tracer.CauseEnd, 0))

	got := map[string]int{}
	for ev := range collect(t, tr) {
		if ev.Type == tracer.EventSession && ev.State == tracer.StateCondemned {
			break
		}
		m := ev.Moved
		if m == nil {
			continue
		}
		how := "elsewhere"
		switch {
		case ev.Session != session:
		case m.Cgroup == id && m.By == ev.Process && ev.Process.PID != w.pid():
			how = "by itself"
		case m.Cgroup == id && m.By == self && ev.Process.PID == w.pid() && m.Session == 0 && m.UID == 0:
			how = "by another"
		case m.Cgroup != id && m.By == self && ev.Process.PID == w.pid() && m.Path == "/":
			how = "back"
		case m.Cgroup == id && m.By != ev.Process && m.Comm == "lngtest-cgroup" && m.Session == session && m.Path == "":
			how = "by birth"
		}
		if m.Path != "" && how != "back" && m.Path != "/"+filepath.Base(dir) {
			how += ", at " + m.Path
		}
		got[how]++
	}
	require.Equal(t, fmt.Sprint(got), fmt.Sprint(map[string]int{"by itself": times, "by another": times, "back": times, "by birth": times}))
}
