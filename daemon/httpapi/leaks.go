//go:build linux

package httpapi

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// getLeaks reports the ports and locks of live sessions.
func (h *processes) getLeaks(w http.ResponseWriter, _ *http.Request, c access.Caller, q url.Values) (err error) {
	d := api.Leaks{Head: api.NewHead("leaks"), Items: []api.Leak{}}
	add := func(v registry.View, x *registry.Session) {
		if x.Closed() {
			return
		}
		l := api.Leak{Head: api.Head{Kind: "leak"}, Session: x.ID().String(), Name: x.Info().Name}
		held := h.Holdings.Held(v, x)
		if holds := held.Document(nil); holds != nil {
			l.Ports, l.Locks = holds.Ports, holds.Locks
		}
		d.Items = append(d.Items, l)
	}
	word := q.Get("session")
	if err = h.each(word, c, add); err == nil && word != "" && len(d.Items) == 0 {
		err = api.NewError(api.CodeNotFound, fmt.Sprintf("session %s has ended", word), "see \"lineage history\"")
	}
	return send(w, http.StatusOK, d, err)
}
