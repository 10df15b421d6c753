//go:build linux

package daemon

import (
	"net/http"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// getOrphans lists the live processes whose creator or root is dead, what was
// handed to other daemons, and the zombies with the parent that has to reap them.
func (s *server) getOrphans(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	q, err := query(r, "session")
	if err != nil {
		return err
	}
	d := api.Orphans{Head: head("orphans"), Items: []api.Orphan{}}
	if word := q.Get("session"); word != "" {
		err = s.withSession(word, c, access.Read, func(x *Session) {
			for _, id := range s.registry.family(x.info.ID) {
				d.Items = s.registry.orphans(d.Items, s.registry.sessions[id], c)
			}
		})
	} else {
		err = s.registry.read(c, func() {
			for _, x := range s.registry.sorted() {
				if access.Decide(c, access.Read, s.registry.scope(x)).Allow {
					d.Items = s.registry.orphans(d.Items, x, c)
				}
			}
		})
	}
	if err != nil {
		return err
	}
	ps := make([]*api.Process, len(d.Items))
	for i := range d.Items {
		ps[i] = &d.Items[i].Process
	}
	s.enrich(c, ps...)
	d.Items = slices.DeleteFunc(d.Items, func(o api.Orphan) bool { return o.Why == api.WhyZombie && o.State == api.StateExited })
	for i := range d.Items {
		if p := &d.Items[i]; p.Why == api.WhyZombie && p.Parent != nil {
			p.Reaper = s.reaper(*p.Parent)
		}
	}
	return reply(w, http.StatusOK, d)
}

// orphans adds those of one session that is not over, nested ones excluded.
func (o *Registry) orphans(all []api.Orphan, x *Session, c access.Caller) []api.Orphan {
	if x == nil || x.closed {
		return all
	}
	return o.encoder().Orphans(all, o.sessionRecord(x), c)
}

// reaper is who has to wait for a zombie. No more is said of it than its name.
func (s *server) reaper(ref api.Ref) *api.Process {
	p := &api.Process{Ref: ref, Comm: comm(s.kernel, s.proc, ref)}
	id := document.ID(ref)
	if e, err := s.kernel.Lookup(id.PID); err == nil && e.Identity == id && e.Session != 0 {
		p.Session = e.Session.String()
	}
	return p
}

// comm is the name of a process that may be no member: PID and command of every
// process are anybody's to read in /proc. "": it is gone, or another process has
// its PID by now.
func comm(k kernel, proc procfs.FS, ref api.Ref) string {
	st, err := proc.Status(uint32(ref.PID))
	if err != nil {
		return ""
	}
	id := document.ID(ref)
	if now, err := k.Identify(id.PID); err == nil && id.Start != 0 && now != id {
		return ""
	}
	return st.Name
}
