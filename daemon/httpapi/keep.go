//go:build linux

package httpapi

import (
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
)

// keeps hands members over to sessions that outlive their own.
type keeps Options

// postKeep hands members over to a kept session.
func (h *keeps) postKeep(w http.ResponseWriter, _ *http.Request, c access.Caller, req *api.KeepRequest) error {
	if req.Name != "" && !api.IsSessionWord(req.Name) {
		return badName(req.Name)
	}
	kept, err := h.Keeper.Keep(req, c, nil)
	if err != nil {
		return err
	}
	d, err := documentOf(h.Keeper.Registry, kept.Session, c)
	if err != nil {
		return err
	}
	d.Head, d.Warnings = api.NewHead("session"), kept.Warnings
	return reply(w, http.StatusCreated, d)
}
