//go:build linux

package httpapi

import (
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/keep"
)

// keeps hands members over to sessions that outlive their own.
type keeps struct{ keeper *keep.Keeper }

// postKeep hands members over to a kept session.
func (h *keeps) postKeep(w http.ResponseWriter, _ *http.Request, c access.Caller, req *api.KeepRequest) error {
	if req.Name != "" && !api.IsSessionWord(req.Name) {
		return badName(req.Name)
	}
	kept, err := h.keeper.Keep(req, c, nil)
	if err != nil {
		return err
	}
	d, err := documentOf(h.keeper.Registry, kept.Session, c)
	if err != nil {
		return err
	}
	d.Head, d.Warnings = api.NewHead("session"), kept.Warnings
	return reply(w, http.StatusCreated, d)
}
