//go:build linux

package httpapi

import (
	"net/http"
	"net/url"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

func (h *processes) getLeaks(w http.ResponseWriter, _ *http.Request, c access.Caller, _ url.Values) error {
	d := api.Leaks{Head: api.NewHead("leaks"), Items: []api.Leak{}}
	err := h.each("", c, func(v registry.View, x *registry.Session) {
		if x.Closed() {
			return
		}
		l := api.Leak{Head: api.Head{Kind: "leak"}, Session: x.ID().String(), Name: x.Info().Name}
		held := h.Holdings.Held(v, x)
		if holds := held.Document(nil); holds != nil {
			l.Ports, l.Locks = holds.Ports, holds.Locks
		}
		d.Items = append(d.Items, l)
	})
	return send(w, http.StatusOK, d, err)
}
