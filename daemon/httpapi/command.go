//go:build linux

package httpapi

import (
	"net/http"
	"net/url"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
)

func (h *acting) postCommand(w http.ResponseWriter, r *http.Request,
	c access.Caller, req *api.SignedCommand) error {
	d, err := h.Signed.Carry(req, c)
	return send(w, http.StatusAccepted, d, err)
}

// getCommand waits for the verdicts if the request says so.
func (h *acting) getCommand(w http.ResponseWriter, r *http.Request, c access.Caller, q url.Values) error {
	wait, err := waitOf(q)
	if err != nil {
		return err
	}
	d, err := h.Signed.Receipt(r.Context(), r.PathValue("id"), wait, c)
	return send(w, http.StatusOK, d, err)
}
