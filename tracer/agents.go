//go:build linux

package tracer

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/bpf"
)

// Agent opens a session over every process that execs under Comm and is in
// none, before its first fork. Whether it is the program that is meant has to
// be found out afterwards: Dissolve lets a lookalike go.
type Agent struct {
	Comm string // 1 to 15 bytes
	// Nests also opens one inside another session, unless the process is that
	// one's root.
	Nests bool
	Rule  uint32 // whatever tells the rule, for [SessionInfo].Rule

	Grace          time.Duration
	MaxLifetime    time.Duration
	MaxProcesses   uint32
	MaxRSS         uint64
	Idle           time.Duration
	KeepOnRootExit bool
}

// agentNests is AGENT_NESTS of bpf/lineage.h.
const agentNests = 1

// SetAgents replaces all agents; nil is none. Sessions that are open stay.
// Agents of the same Comm, or more than the kernel side holds, are an error,
// and then nothing has changed.
func (t *Tracer) SetAgents(agents []Agent) error {
	wanted := make(map[[16]byte]bpf.LineageAgent, len(agents))
	for _, a := range agents {
		var comm [16]byte
		if n := copy(comm[:15], a.Comm); n == 0 || n != len(a.Comm) {
			return fmt.Errorf("set agents: comm %q: want 1 to 15 bytes", a.Comm)
		}
		if _, twice := wanted[comm]; twice {
			return fmt.Errorf("set agents: comm %q is there twice", a.Comm)
		}
		v := bpf.LineageAgent{
			Grace: uint64(a.Grace), MaxLifetime: uint64(a.MaxLifetime), MaxProcesses: a.MaxProcesses,
			MaxRss: a.MaxRSS, Idle: uint64(a.Idle), Rule: a.Rule,
		}
		if a.Nests {
			v.Flags |= agentNests
		}
		if a.KeepOnRootExit {
			v.SessionFlags |= sessionKeepOnRootExit
		}
		wanted[comm] = v
	}
	m := t.maps[bpf.LineageMapAgents]
	if max := int(m.MaxEntries()); len(wanted) > max {
		return fmt.Errorf("set agents: %d are more than %d", len(wanted), max)
	}
	var stale [][16]byte
	var comm [16]byte
	var v bpf.LineageAgent
	each := m.Iterate()
	for each.Next(&comm, &v) {
		if _, keep := wanted[comm]; !keep {
			stale = append(stale, comm)
		}
	}
	if err := each.Err(); err != nil {
		return fmt.Errorf("set agents: %w", err)
	}
	for _, comm := range stale {
		if err := m.Delete(comm); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("set agents: %w", err)
		}
	}
	for comm, v := range wanted {
		if err := m.Put(comm, v); err != nil {
			return fmt.Errorf("set agents: %w", err)
		}
	}
	t.control.setAgents(len(wanted) > 0)
	return nil
}
