//go:build linux

package daemon

import (
	"fmt"
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/leaks"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// getLeaks tells what sessions hold and how it grows.
func (s *server) getLeaks(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	q, err := query(r, "session")
	if err != nil {
		return err
	}
	d := api.Leaks{Head: api.NewHead("leaks"), Items: []api.Leak{}}
	rooms := leaks.Rooms(s.proc)
	if word := q.Get("session"); word != "" {
		err = s.find.Session(word, c, access.Read, func(v registry.View, x *registry.Session) {
			if !x.Closed() {
				d.Items = append(d.Items, s.growth.Session(v, x, rooms))
			}
		})
		if err == nil && len(d.Items) == 0 {
			err = api.NewError(api.CodeNotFound, fmt.Sprintf("session %s is over and holds nothing", word), "lineage history shows how it went")
		}
	} else {
		all := access.Decide(c, access.Metrics, access.Scope{}).Allow
		err = s.registry.ReadFor(c, func(v registry.View) {
			for _, x := range v.Sorted() {
				if !x.Closed() && access.Decide(c, access.Read, v.Scope(x)).Allow {
					d.Items = append(d.Items, s.growth.Session(v, x, rooms))
				}
			}
			if all {
				d.Host = s.growth.Host(v, rooms)
			}
			d.Truncated = s.growth.Full(v)
		})
		if all {
			d.KeepUnmatched = s.rules.KeepUnmatched()
		}
	}
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, d)
}
