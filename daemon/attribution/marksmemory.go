//go:build linux

package attribution

import (
	"errors"
	"slices"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

func (m *Marks) Remember(_ registry.View, s *registry.Session) []registry.Part {
	b := m.books[s.ID()]
	if b == nil {
		return nil
	}
	return []registry.Part{{Name: "mark_agents", Value: slices.Clone(b.agents)},
		{Name: "mark_open", Value: slices.Clone(b.open)},
		{Name: "mark_most", Value: slices.Clone(b.most)}}
}

func (m *Marks) Restore(v registry.View, s *registry.Session, was registry.Parts) error {
	var agents []tracer.Identity
	var open, most []*lineage.Call
	err := errors.Join(was.Decode("mark_agents", &agents), was.Decode("mark_open", &open),
		was.Decode("mark_most", &most))
	if err != nil {
		return err
	}
	m.rejoin(v, s.ID(), open, most)
	m.share(v, s.ID())
	if len(agents)+len(most) == 0 {
		return nil
	}
	b := m.book(s.ID())
	b.most = most[:min(len(most), maxMost+1)]
	b.agents, b.open = agents[:min(len(agents), maxAgents)], open[:min(len(open), maxOpen)]
	for _, nested := range v.Family(s.ID()) {
		m.share(v, nested)
	}
	return nil
}

// share makes the members of a session share the open calls of the sessions around it.
func (m *Marks) share(v registry.View, id tracer.SessionID) {
	for member := range v.Graph().Members(id) {
		claim, _ := v.Graph().Claim(member)
		for i := 0; claim != nil && i < len(claim.Calls); i++ {
			agent, _ := v.Graph().Node(claim.Calls[i].Agent)
			if b := m.books[agent.Session]; b != nil && agent.Session != id {
				if at := slices.IndexFunc(b.open, claim.Calls[i].Same); at >= 0 {
					b.open[at].Learn(claim.Calls[i])
					claim.Calls[i] = b.open[at]
				}
			}
		}
	}
}

// rejoin makes the members of a session share its open calls, so that they learn of their ends, and
// those of its receipt. A member may have been written before the end of its call: then no end is known
// but that it has been.
func (m *Marks) rejoin(v registry.View, id tracer.SessionID, open, most []*lineage.Call) {
	now := m.Clock.Boottime()
	for _, c := range open {
		m.number = max(m.number, c.Number)
	}
	for member := range v.Graph().Members(id) {
		claim, _ := v.Graph().Claim(member)
		if claim == nil {
			continue
		}
		for _, c := range claim.Calls {
			m.number = max(m.number, c.Number)
			if at := slices.IndexFunc(most, c.Same); at >= 0 {
				c.Learn(most[at])
				most[at] = c
			}
			if at := slices.IndexFunc(open, c.Same); at >= 0 {
				c.Learn(open[at])
				open[at] = c
				continue
			}
			agent, known := v.Graph().Node(c.Agent)
			if c.Ended() == 0 && (!known || agent.Session == id) { // else it is a call of another session
				c.End(now)
			}
		}
	}
}
