//go:build linux

package lookup

import (
	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Why answers for one process.
func (f *Finder) Why(id tracer.Identity, live bool, p *api.Process, c access.Caller) (api.Why, error) {
	d := api.Why{}
	err := f.o.Registry.ReadFor(c, func(v registry.View) {
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
		d.Parent = f.parent(d.Process.Parent, c)
	}
	return d, err
}

// parent describes the kernel's parent, which may be another user's: its comm is shown,
// as ps shows it, and nothing more.
func (f *Finder) parent(ref *api.Ref, c access.Caller) *api.Process {
	p := &api.Process{Ref: *ref}
	st, err := f.o.Proc.Status(uint32(ref.PID))
	if err != nil {
		return p
	}
	now, err := f.o.Kernel.Identify(uint32(ref.PID))
	if err == nil && document.Ref(now) == *ref || ref.PID == 1 { // PID 1 is never reused
		p.Comm, p.State, p.UID = st.Name, api.StateLive, new(int(st.UIDs[1]))
	}
	return p
}

// Reaper is the process that has to wait for a zombie. Only its name is shown.
func (f *Finder) Reaper(ref api.Ref) *api.Process {
	p := &api.Process{Ref: ref, Comm: registry.Comm(f.o.Kernel, f.o.Proc, ref)}
	id := document.ID(ref)
	if e, err := f.o.Kernel.Lookup(id.PID); err == nil && e.Identity == id && e.Session != 0 {
		p.Session = e.Session.String()
	}
	return p
}
