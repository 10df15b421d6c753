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

// host answers about the daemon, and the policy in force.
type host Options

func (h *host) getVersion(w http.ResponseWriter, _ *http.Request, _ access.Caller, _ url.Values) error {
	return reply(w, http.StatusOK, h.Status.Version())
}

func (h *host) getStatus(w http.ResponseWriter, _ *http.Request, c access.Caller, _ url.Values) error {
	d, err := h.Status.Document(c)
	return send(w, http.StatusOK, d, err)
}

func (h *host) getMetrics(w http.ResponseWriter, r *http.Request, _ access.Caller, _ url.Values) error {
	h.Metrics.ServeHTTP(w, r)
	return nil
}

func (h *host) postStop(w http.ResponseWriter, _ *http.Request, c access.Caller, req *api.StopRequest) error {
	if req.Unload && h.Managed {
		return api.NewError(api.CodeDenied, "not permitted: a service manager runs the daemon, and would start it again",
			"systemctl stop lineage.socket lineage.service, then lineage daemon --unload")
	}
	live, err := registry.Ask(h.Registry, registry.View.Live)
	if err != nil {
		return err
	}
	if req.Unload && live > 0 && !req.Force {
		return api.NewError(api.CodeLiveSessions, fmt.Sprintf("live sessions: %d", live),
			"end them, or use --force")
	}
	h.Access.Did(c, access.Manage, "stop")
	err = reply(w, http.StatusAccepted, api.NewHead("stop"))
	h.Stop(req.Unload)
	return err
}

func (h *host) postHalt(w http.ResponseWriter, _ *http.Request, c access.Caller, req *api.HaltRequest) error {
	d, err := h.Acts.Halt(req, c, nil)
	return send(w, http.StatusOK, d, err)
}
