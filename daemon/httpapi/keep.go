//go:build linux

package httpapi

import (
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
)

func (h *acting) postKeep(w http.ResponseWriter, _ *http.Request,
	c access.Caller, req *api.KeepRequest) error {
	if req.Name != "" && !api.IsSessionWord(req.Name) {
		return badName(req.Name)
	}
	id, err := h.Keeper.Keep(req, c)
	if err != nil {
		return err
	}
	d, err := documentOf(h.Registry, id, c)
	d.Head = api.NewHead("session")
	return send(w, http.StatusCreated, d, err)
}
