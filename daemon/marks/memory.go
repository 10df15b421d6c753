//go:build linux

package marks

import (
	"errors"
	"slices"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Remember implements [registry.Persistent].
func (m *Marks) Remember(_ registry.View, s *registry.Session) []registry.Part {
	b := m.books[s.ID()]
	if b == nil {
		return nil
	}
	return []registry.Part{{Name: "mark_agents", Value: slices.Clone(b.agents)}, {Name: "mark_open", Value: slices.Clone(b.open)}}
}

// Restore implements [registry.Persistent].
func (m *Marks) Restore(v registry.View, s *registry.Session, was registry.Parts) error {
	var agents []tracer.Identity
	var open []*lineage.Call
	err := errors.Join(was.Decode("mark_agents", &agents), was.Decode("mark_open", &open))
	if err != nil || len(agents) == 0 {
		return err
	}
	b := m.book(s.ID())
	for member := range v.Graph().Members(s.ID()) { // which learn of their ends
		claim, _ := v.Graph().Claim(member)
		if claim == nil {
			continue
		}
		for i := range open {
			if at := slices.IndexFunc(claim.Calls, open[i].Same); at >= 0 {
				open[i] = claim.Calls[at]
			}
		}
	}
	b.agents, b.open = agents[:min(len(agents), maxAgents)], open[:min(len(open), maxOpen)]
	return nil
}
