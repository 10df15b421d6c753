//go:build linux

package daemon

import (
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
)

// getProcess tells of one process.
func (s *server) getProcess(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	if _, err := query(r); err != nil {
		return err
	}
	id, live, err := s.find.Identity(r.PathValue("ref"), c)
	if lookup.IsForgotten(err) {
		d, err := s.archive.Why(r.Context(), r.PathValue("ref"), c, err)
		if err != nil {
			return err
		}
		d.Process.Head = api.NewHead("process")
		return reply(w, http.StatusOK, &d.Process)
	}
	if err != nil {
		return err
	}
	p, err := s.find.Process(id, live, c)
	if err != nil {
		return err
	}
	p.Head = api.NewHead("process")
	return reply(w, http.StatusOK, p)
}
