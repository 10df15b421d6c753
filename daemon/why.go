//go:build linux

package daemon

import (
	"context"
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// getWhy tells whose a process is: every edge from it to the root of its
// session. Of a port or a path it tells the same of everybody who holds it.
func (s *server) getWhy(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	q, err := query(r, "ref", "port", "proto", "path", "device", "inode")
	if err != nil {
		return err
	}
	switch {
	case q.Has("port") && !q.Has("ref") && !q.Has("path"):
		return s.whyPort(w, r, c, q)
	case q.Has("path") && !q.Has("ref") && !q.Has("port"):
		return s.whyPath(w, r, c, q)
	case len(q) != 1:
		return api.NewError(api.CodeBadRequest, "give one of ref, port and path", "")
	}
	id, live, err := s.identity(q.Get("ref"), c)
	if forgotten(err) {
		d, err := s.pastWhy(r.Context(), q.Get("ref"), c, err)
		if err != nil {
			return err
		}
		d.Head = head("why")
		return reply(w, http.StatusOK, d)
	}
	if err != nil {
		return err
	}
	p, err := s.describe(id, live, c)
	if err != nil {
		return err
	}
	d, err := s.why(id, live, p, c)
	if err != nil {
		return err
	}
	if live {
		done, err := s.readProcfs(r.Context())
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), planCollect)
		d.Holds = document.Holds(s.holds.Of(ctx, []tracer.Identity{id}), nil)
		cancel()
		done()
	}
	d.Head = head("why")
	return reply(w, http.StatusOK, d)
}

// why makes the answer about one process.
func (s *server) why(id tracer.Identity, live bool, p *api.Process, c access.Caller) (api.Why, error) {
	d := api.Why{}
	err := s.read(c, func(v registry.View) {
		n, ok := v.Graph().Node(id)
		if !ok || n.Session == 0 {
			return
		}
		var about *document.Session
		if x := v.Session(n.Session); x != nil {
			v.Refresh(x)
			about = v.Record(x)
		}
		d = v.Encoder().Why(&n, about, c)
	})
	d.Process = *p
	if err == nil && live && d.Process.Parent != nil {
		d.Parent = s.parent(d.Process.Parent, c)
	}
	return d, err
}

// parent describes the kernel's parent, which may belong to somebody else: its
// comm is shown, as ps shows it, and no more.
func (s *server) parent(ref *api.Ref, c access.Caller) *api.Process {
	p := &api.Process{Ref: *ref}
	st, err := s.proc.Status(uint32(ref.PID))
	if err != nil {
		return p
	}
	now, err := s.kernel.Identify(uint32(ref.PID))
	if err == nil && document.Ref(now) == *ref || ref.PID == 1 { // nobody else is ever PID 1
		p.Comm, p.State, p.UID = st.Name, api.StateLive, new(int(st.UIDs[1]))
	}
	return p
}
