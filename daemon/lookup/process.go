//go:build linux

package lookup

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Identity finds the process that a ref names: the one that has the PID now,
// else the youngest remembered one that had it.
func (f *Finder) Identity(text string, c access.Caller) (id tracer.Identity, live bool, err error) {
	ref, err := api.ParseRef(text)
	if err != nil {
		return id, false, api.NewError(api.CodeBadRequest, err.Error(), "")
	}
	if c.Foreign {
		return id, false, Foreign(c)
	}
	now, err := f.o.Kernel.Identify(uint32(ref.PID))
	switch {
	case err == nil && (ref.StartNS == 0 || uint64(ref.StartNS) == now.Start):
		return now, true, nil
	case err != nil && !errors.Is(err, tracer.ErrNotFound):
		return id, false, fmt.Errorf("identify pid %d: %w", ref.PID, err)
	}
	reused := err == nil
	var known bool
	err = f.o.Registry.ReadFor(c, func(v registry.View) {
		g := document.ID(ref)
		if ref.StartNS == 0 {
			g, known = v.Graph().ByPID(g.PID)
		} else {
			_, known = v.Graph().Node(g)
		}
		id = g
	})
	switch {
	case err != nil || known:
		return id, false, err
	case reused:
		return id, false, OtherProcess(ref)
	case ref.PID == 1: // some kernels hide it from iterators
		return id, false, api.NewError(api.CodeNotFound, "pid 1 is not in a session: it is the host's init", "")
	}
	hint := `it may belong to an ended session: see "lineage history"`
	if ref.PID > 1<<22 {
		hint = "the kernel gives no PID above 4194304"
	}
	return id, false, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %s: no such process", ref), hint)
}

// Process returns what is known of a process, if c may read it: from the graph if it is
// or was a member, else from procfs.
func (f *Finder) Process(id tracer.Identity, live bool, c access.Caller) (*api.Process, error) {
	p, scope, err := f.Look(id, live, c)
	if err != nil {
		return nil, err
	}
	if d := access.Decide(c, access.Read, scope); !d.Allow {
		return nil, f.o.Access.Refuse(c, access.Read, fmt.Sprintf("process %d", id.PID), d)
	}
	if live {
		f.Enrich(c, p)
	}
	return p, nil
}

// Look returns what is known of a process, and its scope: the caller of Look decides
// who may read it.
func (f *Finder) Look(id tracer.Identity, live bool, c access.Caller) (p *api.Process, scope access.Scope, err error) {
	p, scope, err = f.member(id, c)
	if err == nil && p == nil && live {
		// The kernel decides whether it is a member; its event may be on the way, or
		// lost.
		if e, lookup := f.o.Kernel.Lookup(id.PID); lookup == nil && e.Identity == id && e.Session != 0 {
			if _, err = f.o.Registry.Resync(registry.CauseMember); err == nil {
				p, scope, err = f.member(id, c)
			}
		}
	}
	switch {
	case err != nil || p != nil:
		return p, scope, err
	case !live:
		return nil, scope, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d: no such process", id.PID), "")
	}
	p, scope.UID, err = f.outsider(id)
	return p, scope, err
}

// member is a process that is or was a member, by the graph; nil for any other.
func (f *Finder) member(id tracer.Identity, c access.Caller) (p *api.Process, scope access.Scope, err error) {
	err = f.o.Registry.ReadFor(c, func(v registry.View) {
		n, ok := v.Graph().Node(id)
		if !ok || n.Ghost || n.Session == 0 {
			return
		}
		d := v.Encoder().Process(&n, c)
		p = &d
		scope = access.Scope{UID: n.UID, Chain: slices.Collect(v.Chain(n.Session))}
		if x := v.Session(n.Session); x != nil {
			scope.UID = x.Info().UID
		}
	})
	return p, scope, err
}

// outsider is a live process in no session.
func (f *Finder) outsider(id tracer.Identity) (*api.Process, uint32, error) {
	stat, st, err := f.read(id.PID)
	if now, other := f.o.Kernel.Identify(id.PID); err != nil || other != nil || now != id {
		return nil, 0, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d: no such process", id.PID), "")
	}
	uid := st.UIDs[1]
	p := &api.Process{Ref: document.Ref(id), Comm: st.Name, State: api.StateLive, UID: new(int(uid)), Started: f.o.Clock.Wall(id.Start)}
	if stat.State == 'Z' {
		p.State = api.StateZombie
	}
	p.Parent = f.parentRef(stat.Parent, make(map[uint32]*api.Ref))
	return p, uid, nil
}
