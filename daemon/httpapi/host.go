//go:build linux

package httpapi

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
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

// getHealth is for probes: short, and not about the host's sessions.
func (h *host) getHealth(w http.ResponseWriter, _ *http.Request, _ access.Caller, _ url.Values) error {
	d, err := h.Status.Health()
	return send(w, http.StatusOK, d, err)
}

// getMetrics is /metrics on the socket.
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
		return api.NewError(api.CodeLiveSessions, fmt.Sprintf("live sessions: %d", live), "end them, or use --force")
	}
	h.Access.Did(c, access.Manage, "stop")
	err = reply(w, http.StatusAccepted, api.NewHead("stop"))
	h.Stop(req.Unload)
	return err
}

// postHalt halts or drains the host, or lifts that.
func (h *host) postHalt(w http.ResponseWriter, _ *http.Request, c access.Caller, req *api.HaltRequest) error {
	d, err := h.Acts.Halt(req, c, nil)
	return send(w, http.StatusOK, d, err)
}

// postSelfCheck runs a check now.
func (h *host) postSelfCheck(w http.ResponseWriter, r *http.Request, _ access.Caller, _ *struct{}) error {
	if len(h.SelfCheck.Command) == 0 {
		return api.NewError(api.CodeInternal, "this daemon was started without a canary", "")
	}
	d := h.SelfCheck.Now(r.Context())
	if d == nil {
		return registry.ErrStopping
	}
	return reply(w, http.StatusOK, api.SelfChecked{Head: api.NewHead("selfcheck"), SelfCheck: *d})
}

// maxFindings is how many changes a resync names.
const maxFindings = 1000

// postResync looks at the kernel now.
func (h *host) postResync(w http.ResponseWriter, _ *http.Request, c access.Caller, _ *struct{}) error {
	done, err := h.Registry.Resync(registry.CauseRequest)
	if err != nil {
		return err
	}
	doc := resyncDocument(done)
	if doc.Lost, err = registry.Ask(h.Registry, registry.View.Lost); err != nil {
		return err
	}
	h.Access.Did(c, access.Manage, "resync")
	return reply(w, http.StatusOK, doc)
}

// resyncDocument is a resync on the wire.
func resyncDocument(r *registry.Resync) *api.Resync {
	d := &api.Resync{
		Head: api.NewHead("resync"), Cause: string(r.Cause), Changes: len(r.Changes),
		Added: r.Added, Removed: r.Removed, Items: []api.Finding{}, Truncated: len(r.Changes) > maxFindings,
	}
	count := map[lineage.ChangeKind]*int{
		lineage.Found: &d.Found, lineage.Vanished: &d.Vanished, lineage.Gone: &d.Gone,
		lineage.Moved: &d.Moved, lineage.Reparented: &d.Reparented,
	}
	for _, c := range r.Changes {
		*count[c.Kind]++
		if len(d.Items) == maxFindings {
			continue
		}
		f := api.Finding{Kind: c.Kind.String(), Process: document.Ref(c.ID),
			From: document.RefOrNil(c.From), To: document.RefOrNil(c.To)}
		if c.Session != 0 {
			f.Session = c.Session.String()
		}
		d.Items = append(d.Items, f)
	}
	return d
}
