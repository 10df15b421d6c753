//go:build linux

package httpapi

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/daemon/leaks"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// growth reports what grows.
type growth struct {
	find     *lookup.Finder
	registry *registry.Registry
	proc     procfs.FS
	rules    *rules.Policy
	growth   *leaks.Growth
	holdings *holdings.Holdings
}

// getLeaks reports what sessions hold and how it grows.
func (h *growth) getLeaks(w http.ResponseWriter, _ *http.Request, c access.Caller, q url.Values) (err error) {
	d := api.Leaks{Head: api.NewHead("leaks"), Items: []api.Leak{}}
	rooms := leaks.Rooms(h.proc)
	if word := q.Get("session"); word != "" {
		err = h.find.Session(word, c, access.Read, func(v registry.View, x *registry.Session) {
			if !x.Closed() {
				d.Items = append(d.Items, h.growth.Session(v, x, h.holdings.Held(v, x), rooms))
			}
		})
		if err == nil && len(d.Items) == 0 {
			err = api.NewError(api.CodeNotFound, fmt.Sprintf("session %s has ended", word), "see \"lineage history\"")
		}
	} else {
		all := access.Decide(c, access.Metrics, access.Scope{}).Allow
		err = h.registry.ReadFor(c, func(v registry.View) {
			for _, x := range v.Sorted() {
				if !x.Closed() && access.Decide(c, access.Read, v.Scope(x)).Allow {
					d.Items = append(d.Items, h.growth.Session(v, x, h.holdings.Held(v, x), rooms))
				}
			}
			if all {
				d.Host = h.growth.Host(v, rooms)
			}
			d.Truncated = h.growth.Full(v)
		})
		if all {
			d.KeepUnmatched = h.rules.KeepUnmatched()
		}
	}
	return send(w, http.StatusOK, d, err)
}
