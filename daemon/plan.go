//go:build linux

package daemon

import (
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// postPlan says what an end would do. It sends nothing.
func (s *server) postPlan(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	var req struct{}
	if err := s.decode(w, r, &req); err != nil {
		return err
	}
	var id tracer.SessionID
	d := api.Plan{Head: api.NewHead("plan"), Processes: []api.PlanProcess{}}
	over := false
	err := s.find.Session(r.PathValue("s"), c, access.Read, func(v registry.View, x *registry.Session) {
		id, over = x.ID(), x.Closed()
		d.Session, d.Name, d.State = id.String(), x.Info().Name, x.State()
		if end := access.Decide(c, access.End, v.Scope(x)); !end.Allow {
			d.RefusedBy = "not permitted: " + end.Why
		}
	})
	if lookup.IsNotFound(err) {
		p, err := s.archive.Find(r.Context(), r.PathValue("s"), c, access.Read, err)
		if err != nil {
			return err
		}
		d.Session, d.Name, d.State = p.Word, p.Name, p.Document().State
		return reply(w, http.StatusOK, d)
	}
	if err != nil {
		return err
	}
	if over {
		return reply(w, http.StatusOK, d)
	}
	if err := s.plans.Make(r.Context(), id, c, &d); err != nil {
		return err
	}
	return reply(w, http.StatusOK, d)
}
