//go:build linux

package lookup

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
	"github.com/rs/zerolog"
)

// reused is a kernel in which another process has a PID by now.
type reused struct {
	*kerneltest.Kernel
	pid uint32
}

func (k reused) Identify(pid uint32) (tracer.Identity, error) {
	id, err := k.Kernel.Identify(pid)
	if pid == k.pid {
		id.Start++
	}
	return id, err
}

// unreported is a registry whose members have run before it knows them.
type unreported struct {
	*registrytest.Fixture
	*testing.T
}

func newUnreported(t *testing.T) unreported {
	f := registrytest.New(t)
	f.R.Attach(NewContainerReader(registry.Ground{Registry: f.R, Kernel: reused{f.K, 102}, Proc: f.Proc}, NewContainerFinder(f.Proc, zerolog.Nop())).Hooks())
	f.Run()
	return unreported{f, t}
}

// runs has procfs show a command line.
func (h unreported) runs(pid uint32, argv string) {
	h.Helper()
	procfstest.Files(h.T, string(h.Proc), map[string]string{fmt.Sprint(pid) + "/cmdline": argv})
}

func (h unreported) look() {
	h.Helper()
	h.K.Advance(time.Second)
	_, err := h.R.Resync(registry.CauseMember)
	require.NoError(h.T, err)
}

func (h unreported) node(pid uint32) (n lineage.Node) {
	_ = h.R.Read(func(v registry.View) { n, _ = v.Graph().Node(h.K.Proc(pid).Identity) })
	return n
}

// TestAdopted: the command lines of adopted processes are known after the next look, also once
// the processes are gone. Nothing is taken from a process that has the PID by now, and no process
// is asked again and again.
func TestAdopted(t *testing.T) {
	h := newUnreported(t)
	h.K.Add(100, 1, "lngtest-npm")
	h.K.Add(101, 100, "lngtest-node")
	h.K.Add(102, 100, "lngtest-gone")
	h.K.Add(103, 100, "lngtest-mute")
	h.runs(100, "npm\x00run\x00LINEAGE_TOKEN=\x00")
	h.runs(101, "node\x00vite.js")
	h.runs(102, "innocent\x00")
	_, _, err := h.R.Adopt(tracer.SessionSpec{Root: h.K.Proc(100).Identity, Adopted: true}, 0)
	require.NoError(t, err)
	h.look()
	want := map[uint32][]string{100: {"npm", "run", "LINEAGE_TOKEN="}, 101: {"node", "vite.js"}, 102: nil, 103: nil}
	for pid, argv := range want {
		if n := h.node(pid); !slices.Equal(n.Argv, argv) || n.State != lineage.Live || len(argv) > 0 && n.Commands[0].Time < n.Born {
			t.Errorf("%d: %q, %v", pid, n.Argv, n)
		}
	}
	h.runs(101, "changed\x00")
	h.runs(103, "late\x00")
	h.look()
	for _, pid := range []uint32{101, 103} {
		if n := h.node(pid); !slices.Equal(n.Argv, want[pid]) {
			t.Errorf("%d was asked again: %q", pid, n.Argv)
		}
	}
	h.K.Fork(101, 104, "lngtest-child") // it runs what its creator runs
	h.look()
	if n := h.node(104); !slices.Equal(n.Argv, want[101]) {
		t.Errorf("child: %q", n.Argv)
	}
}

// TestPerLook: one look does not read more than a bounded number of processes; the next one reads
// the others.
func TestPerLook(t *testing.T) {
	h := newUnreported(t)
	h.K.Add(1000, 1, "lngtest-root")
	for pid := uint32(1001); pid <= 1000+perLook; pid++ {
		h.K.Add(pid, 1000, "lngtest-many")
	}
	for pid := uint32(1000); pid <= 1000+perLook; pid++ {
		h.runs(pid, "many\x00")
	}
	_, _, err := h.R.Adopt(tracer.SessionSpec{Root: h.K.Proc(1000).Identity, Adopted: true}, 0)
	require.NoError(t, err)
	for looks, want := range []int{perLook, perLook + 1} {
		h.look()
		known := 0
		for pid := uint32(1000); pid <= 1000+perLook; pid++ {
			if len(h.node(pid).Argv) > 0 {
				known++
			}
		}
		if known != want {
			t.Errorf("look %d: %d known, want %d", looks+1, known, want)
		}
	}
}
