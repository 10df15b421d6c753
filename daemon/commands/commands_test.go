//go:build linux

package commands

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs/procfstest"
)

// host is a registry over a kernel made of Go, and a procfs of files.
type host struct {
	*testing.T
	k      *kerneltest.Kernel
	o      *registry.Registry
	proc   string
	change map[uint32]bool // another process has the PID by now
}

func (h *host) Identify(pid uint32) (tracer.Identity, error) {
	id, err := h.k.Identify(pid)
	if h.change[pid] {
		id.Start++
	}
	return id, err
}

func newHost(t *testing.T) *host {
	f := registrytest.New(t)
	h := &host{T: t, k: f.K, o: f.R, proc: string(f.Proc), change: make(map[uint32]bool)}
	h.o.Attach(New(h.o, h, f.Proc).Hooks())
	f.Run()
	return h
}

// runs has procfs show a command line.
func (h *host) runs(pid, argv string) {
	h.Helper()
	procfstest.Files(h, h.proc, map[string]string{pid + "/cmdline": argv})
}

func (h *host) look() {
	h.Helper()
	h.k.Advance(time.Second)
	_, err := h.o.Resync(registry.CauseRequest)
	require.NoError(h, err)
}

func (h *host) node(pid uint32) (n lineage.Node) {
	_ = h.o.Read(func(v registry.View) { n, _ = v.Graph().Node(h.k.Proc(pid).Identity) })
	return n
}

// TestAdopted: the command lines of adopted processes are known after the next look, also once
// the processes are gone. Nothing is taken from a process that has the PID by now, and no process
// is asked again and again.
func TestAdopted(t *testing.T) {
	h := newHost(t)
	h.k.Add(100, 1, "lngtest-npm")
	h.k.Add(101, 100, "lngtest-node")
	h.k.Add(102, 100, "lngtest-gone")
	h.k.Add(103, 100, "lngtest-mute")
	h.runs("100", "npm\x00run\x00LINEAGE_TOKEN=\x00")
	h.runs("101", "node\x00vite.js")
	h.runs("102", "innocent\x00")
	h.change[102] = true
	_, _, err := h.o.Adopt(tracer.SessionSpec{Root: h.k.Proc(100).Identity, Adopted: true}, 0)
	require.NoError(t, err)
	h.look()
	want := map[uint32][]string{100: {"npm", "run", "LINEAGE_TOKEN="}, 101: {"node", "vite.js"}, 102: nil, 103: nil}
	for pid, argv := range want {
		if n := h.node(pid); !slices.Equal(n.Argv, argv) || n.State != lineage.Live || len(argv) > 0 && n.Commands[0].Time < n.Born {
			t.Errorf("%d: %q, %v", pid, n.Argv, n)
		}
	}
	h.runs("101", "changed\x00")
	h.runs("103", "late\x00")
	h.look()
	for _, pid := range []uint32{101, 103} {
		if n := h.node(pid); !slices.Equal(n.Argv, want[pid]) {
			t.Errorf("%d was asked again: %q", pid, n.Argv)
		}
	}
	h.k.Fork(101, 104, "lngtest-child") // it runs what its creator runs
	h.look()
	if n := h.node(104); !slices.Equal(n.Argv, want[101]) {
		t.Errorf("child: %q", n.Argv)
	}
}

// TestPerLook: one look does not read more than a bounded number of processes; the next one reads
// the others.
func TestPerLook(t *testing.T) {
	h := newHost(t)
	h.k.Add(1000, 1, "lngtest-root")
	for pid := uint32(1001); pid <= 1000+perLook; pid++ {
		h.k.Add(pid, 1000, "lngtest-many")
	}
	for pid := 1000; pid <= 1000+perLook; pid++ {
		h.runs(strconv.Itoa(pid), "many\x00")
	}
	_, _, err := h.o.Adopt(tracer.SessionSpec{Root: h.k.Proc(1000).Identity, Adopted: true}, 0)
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
