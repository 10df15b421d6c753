//go:build linux

package registry

import (
	"slices"

	"github.com/lineage-ebpf/lineage/tracer"
)

// maxHidden is how many hidden sessions are remembered, for their last events.
const maxHidden = 16

// A hidden session is not shown to any user: its events reach only the graph.
type hidden struct {
	id   tracer.SessionID
	over bool // the graph has forgotten it
}

// hiding has the hidden sessions, oldest first.
type hiding []hidden

func (h *hiding) add(id tracer.SessionID) {
	if len(*h) == maxHidden {
		*h = (*h)[1:]
	}
	*h = append(*h, hidden{id: id})
}

// find returns a hidden session, nil for any other session.
func (h hiding) find(id tracer.SessionID) *hidden {
	if i := slices.IndexFunc(h, func(x hidden) bool { return x.id == id }); i >= 0 {
		return &h[i]
	}
	return nil
}
