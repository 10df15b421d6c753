//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/broker"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// maxEnriched bounds how many processes of one reply are looked up in procfs.
const maxEnriched = 512

// enrich adds what only procfs knows of live processes. It is for display: the
// identity is confirmed after the reads, else what was read is dropped.
//
// Where the kernel tells no reparentings the graph learns a new parent from the
// next sample; here it is read at once.
func (s *server) enrich(c access.Caller, ps ...*api.Process) {
	parents := make(map[uint32]*api.Ref)
	for i, p := range ps {
		if i == maxEnriched {
			return
		}
		if p.State == api.StateExited {
			continue
		}
		pid := uint32(p.PID)
		stat, err := s.proc.Stat(pid)
		if p.State == api.StateZombie && !waits(stat.State, err) {
			p.State = api.StateExited
			continue
		}
		if err != nil {
			continue
		}
		st, err := s.proc.Status(pid)
		if err != nil {
			continue
		}
		full := *p
		if p.Parent == nil || uint32(p.Parent.PID) != stat.Parent {
			full.Parent = s.parentRef(stat.Parent, parents)
		}
		full.Task, full.NSPID, full.Cgroup = string(rune(stat.State)), int(st.NSPID), s.proc.Cgroup(pid)
		full.Container = broker.ShortID(broker.Container(full.Cgroup))
		if c.MayReadArgv(st.UIDs[1]) {
			full.Cwd = s.proc.Link(pid, "cwd")
		}
		if exe := s.proc.Link(pid, "exe"); exe != "" {
			full.Exe = exe
		}
		if full.Argv == nil && c.MayReadArgv(st.UIDs[1]) {
			full.Argv, full.ArgvTruncated = broker.Argv(s.proc, pid)
		}
		if id, err := s.kernel.Identify(pid); err == nil && document.Ref(id) == p.Ref {
			*p = full
		}
	}
}

// waits reports whether a dead process waits for its parent, by what its stat
// says. The events alone would call it a zombie while it is torn down, and for up
// to an RCU grace period, some 50 ms, after it was reaped.
func waits(task byte, err error) bool {
	gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	return !gone && (err != nil || task == 'Z')
}

// parentRef names a present parent, without its start if that is not known:
// some kernels hide PID 1 from iterators.
func (s *server) parentRef(pid uint32, seen map[uint32]*api.Ref) *api.Ref {
	if ref, ok := seen[pid]; ok || pid == 0 {
		return ref
	}
	ref := api.Ref{PID: int(pid)}
	if id, err := s.kernel.Identify(pid); err == nil {
		ref = document.Ref(id)
	}
	seen[pid] = &ref
	return &ref
}

// identity finds the process that a ref names: the one that has the PID now,
// else the youngest remembered one that had it.
func (s *server) identity(text string, c access.Caller) (id tracer.Identity, live bool, err error) {
	ref, err := api.ParseRef(text)
	if err != nil {
		return id, false, api.NewError(api.CodeBadRequest, err.Error(), "")
	}
	if c.Foreign {
		return id, false, foreign()
	}
	now, err := s.kernel.Identify(uint32(ref.PID))
	switch {
	case err == nil && (ref.StartNS == 0 || uint64(ref.StartNS) == now.Start):
		return now, true, nil
	case err != nil && !errors.Is(err, tracer.ErrNotFound):
		return id, false, fmt.Errorf("identify pid %d: %w", ref.PID, err)
	}
	reused := err == nil
	var known bool
	err = s.read(c, func(v registry.View) {
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
		return id, false, otherProcess(ref)
	case ref.PID == 1: // some kernels hide it from iterators
		return id, false, api.NewError(api.CodeNotFound, "pid 1 is not in a session: it is the host's init", "")
	}
	return id, false, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %s: no such process", ref), `it may belong to an ended session: see "lineage history"`)
}

// getProcess tells of one process.
func (s *server) getProcess(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	if _, err := query(r); err != nil {
		return err
	}
	id, live, err := s.identity(r.PathValue("ref"), c)
	if forgotten(err) {
		d, err := s.pastWhy(r.Context(), r.PathValue("ref"), c, err)
		if err != nil {
			return err
		}
		d.Process.Head = head("process")
		return reply(w, http.StatusOK, &d.Process)
	}
	if err != nil {
		return err
	}
	p, err := s.describe(id, live, c)
	if err != nil {
		return err
	}
	p.Head = head("process")
	return reply(w, http.StatusOK, p)
}

// describe gives what is known of a process, if c may read it: from the graph
// if it is or was a member, else from procfs.
func (s *server) describe(id tracer.Identity, live bool, c access.Caller) (*api.Process, error) {
	p, scope, err := s.look(id, live, c)
	if err != nil {
		return nil, err
	}
	if d := access.Decide(c, access.Read, scope); !d.Allow {
		return nil, s.access.Refuse(c, access.Read, fmt.Sprintf("process %d", id.PID), d)
	}
	if live {
		s.enrich(c, p)
	}
	return p, nil
}

// look finds what is known of a process, and whose it is: the caller of look
// decides who may know.
func (s *server) look(id tracer.Identity, live bool, c access.Caller) (p *api.Process, scope access.Scope, err error) {
	p, scope, err = s.member(id, c)
	if err == nil && p == nil && live {
		// The kernel decides who is a member; its event may be on the way, or
		// lost.
		if e, lookup := s.kernel.Lookup(id.PID); lookup == nil && e.Identity == id && e.Session != 0 {
			if _, err = s.registry.Resync(registry.CauseMember); err == nil {
				p, scope, err = s.member(id, c)
			}
		}
	}
	switch {
	case err != nil || p != nil:
		return p, scope, err
	case !live:
		return nil, scope, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d: no such process", id.PID), "")
	}
	p, scope.UID, err = s.outsider(id)
	return p, scope, err
}

// member is a process that is or was one, by the graph; nil if it is not.
func (s *server) member(id tracer.Identity, c access.Caller) (p *api.Process, scope access.Scope, err error) {
	err = s.read(c, func(v registry.View) {
		n, ok := v.Graph().Node(id)
		if !ok || n.Ghost || n.Session == 0 {
			return
		}
		d := v.Encoder().Process(&n, c)
		p = &d
		scope = access.Scope{UID: n.UID, Chain: v.Chain(n.Session)}
		if x := v.Session(n.Session); x != nil {
			scope.UID = x.Info().UID
		}
	})
	return p, scope, err
}

// outsider is a live process of no session.
func (s *server) outsider(id tracer.Identity) (*api.Process, uint32, error) {
	gone := api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d: no such process", id.PID), "")
	st, err := s.proc.Status(id.PID)
	if err != nil {
		return nil, 0, gone
	}
	stat, err := s.proc.Stat(id.PID)
	if err != nil {
		return nil, 0, gone
	}
	if now, err := s.kernel.Identify(id.PID); err != nil || now != id {
		return nil, 0, gone
	}
	uid := st.UIDs[1]
	p := &api.Process{Ref: document.Ref(id), Comm: st.Name, State: api.StateLive, UID: new(int(uid)), Started: s.clock.Wall(id.Start)}
	if stat.State == 'Z' {
		p.State = api.StateZombie
	}
	p.Parent = s.parentRef(stat.Parent, make(map[uint32]*api.Ref))
	return p, uid, nil
}
