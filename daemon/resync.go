//go:build linux

package daemon

import (
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
)

// maxFindings is how many changes a resync names.
const maxFindings = 1000

// postResync looks at the kernel now.
func (s *server) postResync(w http.ResponseWriter, _ *http.Request, c access.Caller, _ *struct{}) error {
	done, err := s.registry.Resync(registry.CauseRequest)
	if err != nil {
		return err
	}
	doc := resyncDocument(done)
	if err := s.registry.Read(func(v registry.View) { doc.Lost = v.Lost() }); err != nil {
		return err
	}
	s.access.Managed(c, "resync")
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
		f := api.Finding{Kind: c.Kind.String(), Process: document.Ref(c.ID), From: document.RefOrNil(c.From), To: document.RefOrNil(c.To)}
		if c.Session != 0 {
			f.Session = c.Session.String()
		}
		d.Items = append(d.Items, f)
	}
	return d
}
