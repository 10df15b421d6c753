// Package past applies events to sessions, and orders processes that live or are dead.
package past

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
)

// Advance applies a session's event to its document.
func Advance(s *api.Session, ev *api.Event) {
	s.State = ev.State
	s.Name, s.EndReason = cmp.Or(ev.Name, s.Name), cmp.Or(ev.Reason, s.EndReason)
	if s.State == api.StateEnded && s.Ended == nil {
		s.Ended = ev.Time
	}
}

// Processes are processes that live or are dead.
type Processes map[api.Ref]*api.Process

// Creator is the process that created p, nil if it is not known. It is never younger, so that
// events which no kernel sends cannot make a loop of creators of different ages.
func (all Processes) Creator(p *api.Process) *api.Process {
	if p.Creator == nil || *p.Creator == p.Ref {
		return nil
	}
	if c := all[*p.Creator]; c != nil && c.StartNS <= p.StartNS {
		return c
	}
	return nil
}

// Sorted are the processes in the order of their starts.
func (all Processes) Sorted() []*api.Process {
	return slices.SortedFunc(maps.Values(all), func(a, b *api.Process) int { return Compare(a.Ref, b.Ref) })
}

// Compare orders processes by their starts.
func Compare(a, b api.Ref) int {
	return cmp.Or(cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.PID, b.PID))
}
