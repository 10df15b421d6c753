//go:build linux

package lookup

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// find finds a session that the caller may read, by id, else by name: live ones first, then the newest
// ended one. Among several live ones the caller's own uid is preferred: other users cannot make a name
// ambiguous for root. With the error there may be one that the caller may not read.
func find(v registry.View, word string, c access.Caller) (*registry.Session, error) {
	var readable, mine []*registry.Session
	var named, ended, hidden *registry.Session
	for _, x := range v.Sorted() {
		id := x.ID().String() == word
		switch {
		case !id && (x.Info().Name != word || word == ""):
		case !access.Decide(c, access.Read, v.Scope(x)).Allow:
			hidden = x
		case id && (named == nil || named.Closed()):
			named = x // an agent's session may have the id of an ended one
		case x.Closed():
			ended = x
		default:
			readable = append(readable, x)
			if x.Info().UID == c.UID {
				mine = append(mine, x)
			}
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
	case ended != nil:
		return ended, nil
	}
	return hidden, api.NewError(api.CodeNotFound, fmt.Sprintf("session %q not found", word), `"lineage ls -a" lists those that you may see`)
}
