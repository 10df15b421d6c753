//go:build linux

package httpapi

import (
	"fmt"
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/attribution"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
)

func (h *acting) postMark(w http.ResponseWriter, _ *http.Request,
	c access.Caller, req *api.MarkRequest) error {
	if err := attribution.CheckMark(req); err != nil {
		return err
	}
	if d := access.Decide(c, access.Mark, c.Scope()); !d.Allow {
		return h.Access.Refuse(c, access.Mark, "session", d)
	}
	if c.Foreign {
		return lookup.Foreign(c)
	}
	agent, ok := h.Marks.Agent(c, req.Agent)
	if !ok {
		what := fmt.Sprintf("pid %d", req.Agent.PID)
		return h.Access.Refuse(c, access.Mark, what,
			access.Decision{Why: "it is not an ancestor of the caller in the caller's session"})
	}
	d, err := h.Marks.Mark(c, agent, req)
	return send(w, http.StatusOK, d, err)
}
