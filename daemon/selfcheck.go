//go:build linux

package daemon

import (
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
)

// postSelfCheck makes a check now.
func (s *server) postSelfCheck(w http.ResponseWriter, r *http.Request, _ access.Caller, _ *struct{}) error {
	if len(s.selfCheck.Command) == 0 {
		return api.NewError(api.CodeInternal, "this daemon was started without a canary", "")
	}
	d := s.selfCheck.Now(r.Context())
	if d == nil {
		return registry.ErrStopping
	}
	return reply(w, http.StatusOK, api.SelfChecked{Head: api.NewHead("selfcheck"), SelfCheck: *d})
}
