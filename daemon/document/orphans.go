package document

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/lineage"
)

// Orphans adds the orphans of one session, nested ones excluded: live processes whose
// creator or root is dead, zombies, and work that was handed to other daemons.
func (e Encoder) Orphans(all []api.Orphan, s *Session, r Reader) []api.Orphan {
	id := s.Info.ID
	listed := make(map[lineage.ID]bool)
	add := func(n lineage.ID, why api.OrphanWhy) {
		if node, ok := e.Graph.Node(n); ok && !listed[n] {
			listed[n] = true
			p := e.Process(&node, r)
			p.Head = api.Head{Kind: "orphan"}
			all = append(all, api.Orphan{Process: p, Why: why,
				SessionName: s.Info.Name, Kept: s.Info.Kept,
				Delegated: e.broughtBy(&s.Work, n, r)})
		}
	}
	if s.LeftOver {
		for n := range e.Graph.Members(id) {
			add(n, api.WhyLeftover)
		}
	} else {
		for n := range e.Graph.Orphans(id) {
			add(n, api.WhyOrphan)
		}
	}
	for n := range e.Graph.Zombies(id) {
		add(n, api.WhyZombie)
	}
	for n := range e.Graph.Members(id) {
		if e.broughtBy(&s.Work, n, r) != nil {
			add(n, api.WhyDelegated)
		}
	}
	for _, b := range e.Delegated(&s.Work, r) {
		if b.Process == nil {
			p := *b.Asked
			p.Head, p.Session, p.State = api.Head{Kind: "orphan"}, id.String(), api.StateExited
			if n, ok := e.Graph.Node(ID(p.Ref)); ok && n.State == lineage.Live {
				p.State = api.StateLive
			}
			all = append(all, api.Orphan{Process: p, Why: api.WhyDelegated,
				SessionName: s.Info.Name, Delegated: &b})
		}
	}
	return all
}
