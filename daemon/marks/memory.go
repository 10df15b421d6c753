//go:build linux

package marks

import (
	"encoding/json"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// memory is what a restarted daemon remembers of a live session.
type memory struct {
	Agents []tracer.Identity `json:"mark_agents,omitempty"`
	Open   []*lineage.Call   `json:"mark_open,omitempty"`
}

// Redact implements [registry.Memory]: there are no command lines.
func (*memory) Redact(func([]string) []string) {}

// Remember implements [registry.Persistent].
func (m *Marks) Remember(_ registry.View, s *registry.Session) registry.Memory {
	b := m.books[s.ID()]
	if b == nil {
		return &memory{}
	}
	return &memory{Agents: append([]tracer.Identity{}, b.agents...), Open: append([]*lineage.Call{}, b.open...)}
}

// Restore implements [registry.Persistent].
func (m *Marks) Restore(_ registry.View, s *registry.Session, text json.RawMessage) {
	var was memory
	if json.Unmarshal(text, &was) != nil || len(was.Agents) == 0 {
		return // the registry has reported what cannot be decoded
	}
	b := m.book(s.ID())
	b.agents, b.open = was.Agents[:min(len(was.Agents), maxAgents)], was.Open[:min(len(was.Open), maxOpen)]
}
