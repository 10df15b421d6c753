//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/bpf"
	"github.com/lineage-ebpf/lineage/tracer/bpfmap"
	"golang.org/x/sys/unix"
)

// elderAgents are the agents that the elder opens sessions for. Its exec hook keeps running
// during the take-over. It stops before its sessions are read for the last time, and ours
// begins when it has them all. Processes that become agents in between are searched for then.
type elderAgents struct {
	bss    []byte  // mapped; nil: this version has no agents
	on     *uint32 // the elder's control.agents
	was    uint32
	agents *ebpf.Map
	late   lateAgents
}

// stopAgents stops the elder from opening sessions. resume undoes it if the take-over
// fails.
func (e *elder) stopAgents(before map[Identity]Comm) (*elderAgents, error) {
	a := &elderAgents{late: lateAgents{agents: map[Comm]bpf.LineageAgent{}, before: before}}
	bss, err := ebpf.LoadPinnedMap(pinPath(e.dir, mapPin, ".bss"), nil)
	if errors.Is(err, os.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open map .bss: %w", err)
	}
	defer bss.Close()
	at, err := agentsWord(bss)
	if errors.Is(err, btf.ErrNotFound) {
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	if uint64(at)+4 > uint64(bss.ValueSize()) {
		return nil, fmt.Errorf("map .bss: %d bytes do not hold a word at %d", bss.ValueSize(), at)
	}
	if a.agents, err = ebpf.LoadPinnedMap(pinPath(e.dir, mapPin, bpf.LineageMapAgents), nil); err != nil {
		return nil, fmt.Errorf("open map %s: %w", bpf.LineageMapAgents, err)
	}
	if a.bss, err = unix.Mmap(bss.FD(), 0, int(bss.ValueSize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		a.agents.Close()
		return nil, fmt.Errorf("map .bss: %w", err)
	}
	a.on = (*uint32)(unsafe.Pointer(&a.bss[at]))
	a.was = atomic.SwapUint32(a.on, 0)
	return a, nil
}

// agentsWord is where the elder's control.agents is in its .bss.
func agentsWord(bss *ebpf.Map) (uint32, error) {
	handle, err := bss.Handle()
	if err != nil {
		return 0, fmt.Errorf("read types of map .bss: %w", err)
	}
	defer handle.Close()
	spec, err := handle.Spec(nil)
	if err != nil {
		return 0, fmt.Errorf("read types of map .bss: %w", err)
	}
	var section *btf.Datasec
	var control *btf.Struct
	if err := errors.Join(spec.TypeByName(".bss", &section), spec.TypeByName("shared", &control)); err != nil {
		return 0, err
	}
	for _, v := range section.Vars {
		if x, ok := v.Type.(*btf.Var); !ok || x.Name != bpf.LineageVarControl {
			continue
		}
		for _, m := range control.Members {
			if m.Name == "agents" {
				return v.Offset + m.Offset.Bytes(), nil
			}
		}
	}
	return 0, btf.ErrNotFound
}

// carryTo makes our side open sessions for the same agents.
func (a *elderAgents) carryTo(t *Tracer) error {
	if a.was == 0 {
		return nil
	}
	theirs, err := bpfmap.StructOf(a.agents, "agent")
	if err != nil {
		return err
	}
	spec, err := bpf.LoadLineage()
	if err != nil {
		return fmt.Errorf("read the BPF object: %w", err)
	}
	var ours *btf.Struct
	if err := spec.Types.TypeByName("agent", &ours); err != nil {
		return fmt.Errorf("struct agent: %w", err)
	}
	c, err := bpfmap.NewCopier(theirs, ours)
	if err != nil {
		return err
	}
	each := a.agents.Iterate()
	var comm Comm
	var value []byte
	for each.Next(&comm, &value) {
		var g bpf.LineageAgent
		if err := errors.Join(bpfmap.Into(c, value, &g), t.maps[bpf.LineageMapAgents].Put(comm, g)); err != nil {
			return fmt.Errorf("carry agents: %w", err)
		}
		a.late.agents[comm] = g
	}
	if err := each.Err(); err != nil {
		return fmt.Errorf("carry agents: %w", err)
	}
	t.control.setAgents(true)
	_, err = a.late.open(t)
	return err
}

// resume lets the elder open sessions again.
func (a *elderAgents) resume() {
	if a.on != nil {
		atomic.StoreUint32(a.on, a.was)
	}
}

func (a *elderAgents) close() {
	if a.bss != nil {
		_ = unix.Munmap(a.bss)
		a.agents.Close()
	}
}
