//go:build linux

package lookup

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// find finds a session by id, else by name: live ones first, then the newest ended one,
// and those that the caller may read before others. Among several live ones the
// caller's own uid is preferred: other users cannot make a name ambiguous for root.
func find(v registry.View, word string, c access.Caller) (*registry.Session, error) {
	var live, readable, mine []*registry.Session
	var ended, named *registry.Session
	for _, x := range v.Sorted() {
		if x.ID().String() == word && (named == nil || named.Closed()) {
			named = x // an agent's session may have the id of an ended one
		}
		if x.Info().Name != word || word == "" {
			continue
		}
		may := access.Decide(c, access.Read, v.Scope(x)).Allow
		switch {
		case !x.Closed() && may:
			readable = append(readable, x)
			if x.Info().UID == c.UID {
				mine = append(mine, x)
			}
		case !x.Closed():
			live = append(live, x)
		case may || ended == nil:
			ended = x
		}
	}
	switch {
	case named != nil:
		return named, nil
	case len(mine) == 1:
		return mine[0], nil
	case len(readable) > 1:
		e := api.NewError(api.CodeAmbiguous, fmt.Sprintf("session %q: %d sessions have that name", word, len(readable)), "use the id")
		for _, x := range readable {
			e.Items = append(e.Items, v.Document(x, c))
		}
		return nil, e
	case len(readable) == 1:
		return readable[0], nil
	case ended != nil && access.Decide(c, access.Read, v.Scope(ended)).Allow:
		return ended, nil
	case len(live) > 0:
		return live[0], nil
	case ended != nil:
		return ended, nil
	}
	return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("session %q not found", word), "\"lineage ls\" lists the sessions")
}
