//go:build linux

package signed

import (
	"fmt"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// maxOrdered bounds the sessions that one command ends.
const maxOrdered = 1024

// selected are the live sessions that an order names, and that its signers may end. A word without one
// is an error. A name, and all, pass over the sessions that they may not end.
func (s *Orders) selected(o *order, c access.Caller) (all []tracer.SessionInfo, err error) {
	rerr := s.o.Registry.Read(func(v registry.View) {
		found := map[string]bool{}
		var denied access.Decision
		for _, x := range v.Sorted() {
			info := x.Info()
			if x.Closed() || !(o.All && !holdsKept(v, x.ID())) && !info.Among(o.Sessions) {
				continue
			}
			if d := access.Decide(c, access.End, v.Scope(x)); !d.Allow {
				denied = d
				continue
			}
			found[info.ID.String()], found[info.Name] = true, true
			all = append(all, info)
		}
		missing := slices.IndexFunc(o.Sessions, func(word string) bool { return !found[word] })
		switch {
		case missing >= 0 && denied.Why != "":
			err = api.NewError(api.CodeDenied, denied.Why, "")
		case missing >= 0:
			err = api.NewError(api.CodeNotFound, fmt.Sprintf("session %q not found", o.Sessions[missing]), "")
		case len(all) > maxOrdered:
			err = api.NewError(api.CodeBadRequest, fmt.Sprintf("it would end %d sessions, more than %d", len(all), maxOrdered), "")
		case o.Plan != "" && len(all) != 1:
			err = api.NewError(api.CodeAmbiguous, fmt.Sprintf("%d sessions have that name, and the plan is of one", len(all)), "use the id")
		}
	})
	if rerr != nil {
		return nil, rerr
	}
	return all, err
}

// holdsKept reports whether a session, or one that is nested in it, is kept.
func holdsKept(v registry.View, id tracer.SessionID) bool {
	return slices.ContainsFunc(v.Family(id), func(id tracer.SessionID) bool {
		x := v.Session(id)
		return x != nil && x.Info().Kept
	})
}
