//go:build linux

package lookup

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
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
		return id, false, api.NewError(api.CodeNotFound,
			"pid 1 is not in a session: it is the host's init", "")
	}
	hint := `it may belong to an ended session: see "lineage history"`
	if ref.PID > 1<<22 {
		hint = "the kernel gives no PID above 4194304"
	}
	return id, false, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %s: no such process", ref), hint)
}

// Death is the last process in no session that a signal killed, of the PID, and the start if it has
// one, in a text, and not but; nil: none is known, or c is not root.
func (f *Finder) Death(text string, but api.Ref, c access.Caller) *api.Process {
	ref, err := api.ParseRef(text)
	if err != nil || c.Foreign || !c.Root() {
		return nil
	}
	id, last := document.ID(ref), tracer.Event{}
	err = f.o.Kernel.Deaths(func(ev *tracer.Event) {
		p := ev.Process
		if p.PID == id.PID && (id.Start == 0 || p == id) && p != document.ID(but) &&
			p.Start > last.Process.Start {
			last = *ev
		}
	})
	if err != nil || last.Signal == nil {
		return nil
	}
	killer := document.Sender(f.o.Clock.Clock, last.Signal)
	return &api.Process{
		Ref: document.Ref(last.Process), Comm: last.Comm.String(), UID: new(int(last.UID)),
		State: api.StateExited, Started: f.o.Clock.Wall(last.Process.Start),
		Signal: killer.Signal, Killer: killer,
	}
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
func (f *Finder) Look(id tracer.Identity, live bool, c access.Caller) (p *api.Process,
	scope access.Scope, err error) {
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
		return nil, scope, api.Errorf(api.CodeNotFound, "pid %d: no such process", id.PID)
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
		p = new(v.Encoder().Process(&n, c))
		scope = access.Scope{UID: n.UID, Chain: slices.Collect(v.Chain(n.Session))}
		if x := v.Session(n.Session); x != nil {
			scope.UID = x.Info().UID
		}
	})
	return p, scope, err
}

func (f *Finder) outsider(id tracer.Identity) (*api.Process, uint32, error) {
	stat, st, err := f.read(id.PID)
	if now, other := f.o.Kernel.Identify(id.PID); err != nil || other != nil || now != id {
		return nil, 0, api.Errorf(api.CodeNotFound, "pid %d: no such process", id.PID)
	}
	uid := st.UIDs[1]
	p := &api.Process{Ref: document.Ref(id), Comm: st.Name, State: api.StateLive,
		UID: new(int(uid)), Started: f.o.Clock.Wall(id.Start)}
	if stat.State == 'Z' {
		p.State = api.StateZombie
	}
	p.Parent = f.parentRef(stat.Parent, make(map[uint32]*api.Ref))
	return p, uid, nil
}

func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

func (f *Finder) read(pid uint32) (stat procfs.Stat, st procfs.Status, err error) {
	if stat, err = f.o.Proc.Stat(pid); err == nil {
		st, err = f.o.Proc.Status(pid)
	}
	return stat, st, err
}

// Running is a process that is not a zombie, as procfs shows it.
type Running struct {
	ID     tracer.Identity
	Parent uint32
	UIDs   []uint32 // real, effective, saved, filesystem
}

// ForeignTo finds a uid of the process that the caller may not act for.
func (p *Running) ForeignTo(c access.Caller) (uid uint32, found bool) {
	for _, uid := range p.UIDs {
		if c.UID != 0 && uid != c.UID {
			return uid, true
		}
	}
	return 0, false
}

// Running reads the process that a ref names. The identity is taken before procfs is
// read and confirmed after it, so that both are of one process.
func (f *Finder) Running(ref api.Ref) (p Running, err error) {
	pid := uint32(ref.PID)
	p.ID, err = f.o.Kernel.Identify(pid)
	switch {
	case errors.Is(err, tracer.ErrNotFound) && pid == 1: // some kernels hide it from iterators
		return p, api.NewError(api.CodeGuarded, "pid 1 is the host's init: it is never adopted", "")
	case errors.Is(err, tracer.ErrNotFound):
		return p, api.Errorf(api.CodeNotFound, "pid %d: no such process", pid)
	case err != nil:
		return p, fmt.Errorf("identify pid %d: %w", pid, err)
	case ref.StartNS != 0 && uint64(ref.StartNS) != p.ID.Start:
		return p, OtherProcess(ref)
	}
	stat, st, err := f.read(pid)
	if isGone(err) {
		return p, api.Errorf(api.CodeNotFound, "pid %d has exited", pid)
	}
	if err != nil {
		return p, fmt.Errorf("read pid %d: %w", pid, err)
	}
	if now, err := f.o.Kernel.Identify(pid); err != nil || now != p.ID {
		return p, OtherProcess(ref)
	}
	if stat.State == 'Z' || stat.State == 'X' {
		return p, api.Errorf(api.CodeNotFound, "pid %d has exited", pid)
	}
	p.Parent, p.UIDs = stat.Parent, st.UIDs
	return p, nil
}

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
