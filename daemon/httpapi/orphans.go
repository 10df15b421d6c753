//go:build linux

package httpapi

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/holdings"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// each runs f for the session that word names, else for each that the caller may read.
func (h *processes) each(word string, c access.Caller, f func(registry.View, *registry.Session)) error {
	if word != "" {
		return h.Find.Session(word, c, access.Read, f)
	}
	return h.Registry.ReadFor(c, func(v registry.View) {
		for _, x := range v.Sorted() {
			if access.Decide(c, access.Read, v.Scope(x)).Allow {
				f(v, x)
			}
		}
	})
}

// getOrphans lists the live processes whose creator or root is dead, what was
// handed to other daemons, and the zombies with the parent that has to reap them; and what is alive
// of each tool call.
func (h *processes) getOrphans(w http.ResponseWriter, _ *http.Request,
	c access.Caller, q url.Values) (err error) {
	d := api.Orphans{Head: api.NewHead("orphans"), Items: []api.Orphan{}, Calls: []api.CallLeft{}}
	word := q.Get("session")
	err = h.each(word, c, func(v registry.View, x *registry.Session) {
		family := []tracer.SessionID{x.ID()}
		if word != "" {
			family = v.Family(x.ID())
		}
		for _, id := range family {
			h.add(v, &d, v.Session(id), c)
		}
	})
	if err != nil {
		return err
	}
	ps := make([]*api.Process, len(d.Items))
	for i := range d.Items {
		ps[i] = &d.Items[i].Process
	}
	h.Find.Enrich(c, ps...)
	d.Items = slices.DeleteFunc(d.Items, func(o api.Orphan) bool { return o.Why == api.WhyZombie && o.State == api.StateExited })
	for i := range d.Items {
		if p := &d.Items[i]; p.Why == api.WhyZombie && p.Parent != nil {
			p.Reaper = h.Find.Reaper(*p.Parent)
		}
	}
	return reply(w, http.StatusOK, d)
}

// add adds those of one live session, nested ones excluded.
func (h *processes) add(v registry.View, d *api.Orphans, x *registry.Session, c access.Caller) {
	if x == nil || x.Closed() {
		return
	}
	record := v.Record(x)
	d.Items = v.Encoder().Orphans(d.Items, record, c)
	calls, more := document.Calls(v.Encoder(), record, holdings.PortNumbers(h.Holdings.Held(v, x).Ports), c)
	d.Calls, d.MoreCalls = append(d.Calls, calls...), d.MoreCalls+more
}
