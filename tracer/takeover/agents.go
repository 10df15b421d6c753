//go:build linux

package takeover

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/lineage-ebpf/lineage/bpf"
	"golang.org/x/sys/unix"
)

// Agents are the agents that the programs open sessions for. Their exec hook keeps running
// during the take-over. It stops before its sessions are read for the last time, and ours
// begins when it has them all. Processes that become agents in between are searched for then.
type Agents struct {
	of     *Programs
	bss    []byte  // mapped; nil: this version has no agents
	on     *uint32 // their control.agents
	was    uint32
	agents *ebpf.Map
}

// StopAgents stops the programs from opening sessions. Resume undoes it if the take-over
// fails.
func (p *Programs) StopAgents() (*Agents, error) {
	a := &Agents{of: p}
	bss, at, err := p.shared("agents")
	if bss == nil {
		return a, err
	}
	defer bss.Close()
	if uint64(at)+4 > uint64(bss.ValueSize()) {
		return nil, fmt.Errorf("map .bss: %d bytes do not hold a word at %d", bss.ValueSize(), at)
	}
	if a.agents, err = p.load(bpf.LineageMapAgents); err != nil {
		return nil, err
	}
	if a.bss, err = unix.Mmap(bss.FD(), 0, int(bss.ValueSize()), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED); err != nil {
		a.agents.Close()
		return nil, fmt.Errorf("map .bss: %w", err)
	}
	a.on = (*uint32)(unsafe.Pointer(&a.bss[at]))
	a.was = atomic.SwapUint32(a.on, 0)
	return a, nil
}

// shared opens their .bss, in which a field of their control is at an offset; nil: this version has no such field.
func (p *Programs) shared(field string) (bss *ebpf.Map, at uint32, err error) {
	bss, err = p.load(".bss")
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if at, err = inControl(bss, field); err == nil {
		return bss, at, nil
	}
	bss.Close()
	if errors.Is(err, btf.ErrNotFound) {
		err = nil
	}
	return nil, 0, err
}

// inControl is where a field of their control is in their .bss.
func inControl(bss *ebpf.Map, field string) (uint32, error) {
	types, err := TypesOf(bss)
	if err != nil {
		return 0, err
	}
	var section *btf.Datasec
	var control *btf.Struct
	if err := errors.Join(types.TypeByName(".bss", &section),
		types.TypeByName("shared", &control)); err != nil {
		return 0, err
	}
	for _, v := range section.Vars {
		if x, ok := v.Type.(*btf.Var); !ok || x.Name != bpf.LineageVarControl {
			continue
		}
		for _, m := range control.Members {
			if m.Name == field {
				return v.Offset + m.Offset.Bytes(), nil
			}
		}
	}
	return 0, btf.ErrNotFound
}

// Looks is what their exec hook looked for: bits of enum looks.
func (a *Agents) Looks() uint32 { return a.was }

// All returns the agents by the names of their programs, in our layout; nil: there were none.
func (a *Agents) All() (map[[16]byte]bpf.LineageAgent, error) {
	if a.was == 0 {
		return nil, nil
	}
	c, err := a.of.copier(a.agents, "agent")
	if err != nil {
		return nil, err
	}
	all := map[[16]byte]bpf.LineageAgent{}
	each := a.agents.Iterate()
	var comm [16]byte
	var value []byte
	for each.Next(&comm, &value) {
		var g bpf.LineageAgent
		if err := Into(c, value, &g); err != nil {
			return nil, fmt.Errorf("read the agents: %w", err)
		}
		all[comm] = g
	}
	if err := each.Err(); err != nil {
		return nil, fmt.Errorf("read the agents: %w", err)
	}
	return all, nil
}

// Resume lets the programs open sessions again.
func (a *Agents) Resume() {
	if a.on != nil {
		atomic.StoreUint32(a.on, a.was)
	}
}

// Close leaves the agents as they are.
func (a *Agents) Close() {
	if a.bss != nil {
		_ = unix.Munmap(a.bss)
		a.agents.Close()
	}
}
