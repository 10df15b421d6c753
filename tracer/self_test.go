//go:build linux

package tracer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// Results of what a process with root tries against this process and its pins; see
// testdata/programs/against.c.
var (
	allowed = []string{
		"signal 0 0", "kill 0", "pidfd_send_signal 0", "tgkill 0", "sigio 0", "pidfd_getfd 0",
		"process_vm_readv 0", "mem 0", "environ 0", "ptrace 0", "map by id 0", "program by id 0", "map by pin 0",
		"load raw_tracepoint 0", "load socket_filter 0", "create map 0", "rename 0", "unlink 0",
	}
	denied = []string{
		"signal 0 0", "kill 1", "pidfd_send_signal 1", "tgkill 1", "sigio 0", "pidfd_getfd 1",
		"process_vm_readv 1", "mem 13", "environ 0", "ptrace 1", "map by id 1", "program by id 1", "map by pin 1",
		"load raw_tracepoint 1", "load socket_filter 0", "create map 0", "rename 1", "unlink 1",
	}
)

// attempts starts the program that makes the attempts against this process.
type attempts struct {
	*workload
	pin string
}

func attemptsOn(t *testing.T, dir string) attempts {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, tracer.ABI()+"-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("pins %v, %v", found, err)
	}
	pin := func(name string) string { return filepath.Join(found[0], name) }
	m, err := ebpf.LoadPinnedMap(pin("map_counters"), nil)
	require.NoError(t, err)
	defer m.Close()
	p, err := ebpf.LoadPinnedProgram(pin("program_verb_end"), nil)
	require.NoError(t, err)
	defer p.Close()
	mi, err := m.Info()
	require.NoError(t, err)
	pi, err := p.Info()
	require.NoError(t, err)
	mapID, _ := mi.ID()
	programID, _ := pi.ID()
	return attempts{
		program(t, "against", fmt.Sprint(os.Getpid()), fmt.Sprint(mapID), fmt.Sprint(programID), pin("map_counters")),
		pin("map_counters"),
	}
}

func (a attempts) try() []string {
	a.t.Helper()
	// The pin that it may unlink is its own.
	m, err := ebpf.LoadPinnedMap(a.pin, nil)
	require.NoError(a.t, err)
	defer m.Close()
	copied, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	require.NoError(a.t, err)
	defer copied.Close()
	require.NoError(a.t, copied.Pin(a.pin+"-copy"))
	a.goOn()
	var got []string
	for l := a.line(); l != "ready"; l = a.line() {
		got = append(got, l)
	}
	if err := os.Remove(a.pin + "-copy"); err != nil && !os.IsNotExist(err) {
		a.t.Fatal(err)
	}
	return got
}

func difference(got, want []string) string {
	var b strings.Builder
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			fmt.Fprintf(&b, "%s, want %s\n", g, w)
		}
	}
	return b.String()
}

// Members are denied what all other root processes may do, while it is requested: also
// without a tracer.
func TestSelfProtect(t *testing.T) {
	dir := tracertest.Dir(t)
	tr := tracertest.New(t, tracer.Options{Dir: dir})
	require.NoError(t, tr.Protect(uint32(os.Getpid())))
	member, outsider := attemptsOn(t, dir), attemptsOn(t, dir)
	id := create(t, tr, member.workload, tracer.SessionSpec{})
	member.goOn()
	outsider.goOn()
	if d := difference(member.try(), allowed); d != "" {
		t.Errorf("not asked for, a member:\n%s", d)
	}

	if err := tr.SelfProtect(true); err != nil {
		if left, _ := filepath.Glob(filepath.Join(dir, "*", "link_self_*")); len(left) > 0 {
			t.Errorf("refused, and attached %v", left)
		}
		needsLSM(t, err)
	}
	for _, round := range []string{"first", "asked for again"} {
		before := counter(t, tr, "self_denied")
		if d := difference(member.try(), denied); d != "" {
			t.Errorf("%s, a member:\n%s", round, d)
		}
		// As many as are denied, and one that no call reports.
		want := uint64(1)
		for i := range denied {
			if denied[i] != allowed[i] {
				want++
			}
		}
		if n := counter(t, tr, "self_denied") - before; n != want {
			t.Errorf("%s: %d denied, want %d", round, n, want)
		}
		if d := difference(outsider.try(), allowed); d != "" {
			t.Errorf("%s, an outsider:\n%s", round, d)
		}
		require.NoError(t, tr.SelfProtect(true))
	}

	// No tracer is left; only this process, whose PID is used.
	tr.Close()
	if d := difference(member.try(), denied); d != "" {
		t.Errorf("without a tracer, a member:\n%s", d)
	}
	tr = tracertest.New(t, tracer.Options{Dir: dir})
	require.NoError(t, tr.SelfProtect(false))
	var got []string
	until(t, "members may again: "+difference(got, allowed), func() bool { // the kernel detaches later
		got = member.try()
		return slices.Equal(got, allowed)
	})
	tr.End(id, tracer.CauseEnd, 0)
	sentenced(t, tr, id)
	member.wait()
	settled(t, tr, id)
}

// The kernel's own signals pass: a daemon that is protected from its members is not
// protected from a fault of its own, or from running out of memory.
func TestSelfProtectEnds(t *testing.T) {
	dir := tracertest.Dir(t)
	tr := tracertest.New(t, tracer.Options{Dir: dir})
	require.NoError(t, tr.Protect(uint32(os.Getpid())))
	if err := tr.SelfProtect(true); err != nil {
		needsLSM(t, err)
	}
	w, id := startIn(t, tr, `sleep 60 & echo; wait`)
	w.goOn()
	w.line()
	// Our passes, and our own signals, are not denied.
	require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
	sentenced(t, tr, id)
	w.gone()
	w.wait()
	settled(t, tr, id)
	if err := unix.Kill(os.Getpid(), unix.SIGURG); err != nil {
		t.Errorf("the daemon's own signal: %v", err)
	}
	require.Equal(t, counter(t, tr, "self_denied"), 0)
}
