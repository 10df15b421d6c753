//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

// postAdopted makes a session of a process that has been running for some
// time. Its present descendants come with it.
func (s *server) postAdopted(w http.ResponseWriter, req *api.NewSession, c access.Caller) error {
	if d := access.Decide(c, access.Adopt, access.Scope{UID: c.UID}); !d.Allow {
		return s.access.Refuse(c, access.Adopt, fmt.Sprintf("pid %d", req.Root.PID), d)
	}
	spec, err := s.spec(req, c)
	if err != nil {
		return err
	}
	spec.Owner, spec.Adopted = tracer.Identity{}, true
	root, err := s.living(req.Root)
	if err != nil {
		return err
	}
	if d := s.mayAdopt(&root, c); !d.Allow {
		return s.access.Refuse(c, access.Adopt, fmt.Sprintf("pid %d", req.Root.PID), d)
	}
	spec.Root, spec.UID = root.id, root.uids[1]
	// An ancestor of the caller may be named: an agent's hook adopts the agent. It
	// makes the caller a member, and ends nobody.
	if err := s.enforcer.CheckRoot(spec.Root, tracer.Identity{}); err != nil {
		return err
	}
	info, n, err := s.registry.Adopt(spec)
	if err != nil {
		return err
	}
	var d api.Session
	if err := s.registry.Read(func(v registry.View) {
		if x := v.Session(info.ID); x != nil {
			d = v.Document(x, c)
		}
	}); err != nil {
		return err
	}
	s.log.Info().Str(logging.KeySession, d.ID).Str(logging.KeyName, d.Name).Uint32(logging.KeyUID, c.UID).Uint32(logging.KeyPID, spec.Root.PID).
		Int(logging.KeyAdded, n).Msg("process adopted")
	s.access.Done(c, access.Adopt, d.ID)
	d.Head = api.NewHead("session")
	return reply(w, http.StatusCreated, d)
}

// mayAdopt decides about a process and the sessions that it is in: once adopted
// it could be kept, and would be out of their reach.
func (s *server) mayAdopt(p *living, c access.Caller) access.Decision {
	if uid, foreign := p.foreignTo(c); foreign {
		return access.Decision{Why: fmt.Sprintf("it runs as uid %d", uid), Hint: "run with sudo"}
	}
	if e, err := s.kernel.Lookup(p.id.PID); err == nil && e.Identity == p.id {
		return s.decideChain(c, access.End, e.Session)
	}
	return access.Decision{Allow: true}
}

// decideChain decides about a session and every session around it.
func (s *server) decideChain(c access.Caller, v access.Verb, id tracer.SessionID) access.Decision {
	for range registry.MaxDepth {
		info, err := s.kernel.Session(id)
		if errors.Is(err, tracer.ErrNotFound) {
			break // the outermost one was before
		}
		if err != nil {
			return access.Decision{Why: err.Error()}
		}
		if d := access.Decide(c, v, access.Scope{UID: info.UID}); !d.Allow {
			d.Why = fmt.Sprintf("session %v: %s", id, d.Why)
			return d
		}
		id = info.Parent
	}
	return access.Decision{Allow: true}
}

// living is a process that is no zombie, as procfs tells of it.
type living struct {
	id     tracer.Identity
	parent uint32
	uids   []uint32 // real, effective, saved, filesystem
}

// foreignTo finds a uid of the process that the caller may not act for.
func (p *living) foreignTo(c access.Caller) (uid uint32, found bool) {
	for _, uid := range p.uids {
		if c.UID != 0 && uid != c.UID {
			return uid, true
		}
	}
	return 0, false
}

// living looks at the process that a ref names. The identity is taken before
// procfs is read and confirmed after it, so that both speak of one process.
func (s *server) living(ref api.Ref) (p living, err error) {
	pid := uint32(ref.PID)
	p.id, err = s.kernel.Identify(pid)
	switch {
	case errors.Is(err, tracer.ErrNotFound) && pid == 1: // some kernels hide it from iterators
		return p, api.NewError(api.CodeGuarded, "pid 1 is the host's init: it is never adopted", "")
	case errors.Is(err, tracer.ErrNotFound):
		return p, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d: no such process", pid), "")
	case err != nil:
		return p, fmt.Errorf("identify pid %d: %w", pid, err)
	case ref.StartNS != 0 && uint64(ref.StartNS) != p.id.Start:
		return p, otherProcess(ref)
	}
	stat, err := s.proc.Stat(pid)
	if err != nil {
		return p, fmt.Errorf("read pid %d: %w", pid, err)
	}
	st, err := s.proc.Status(pid)
	if err != nil {
		return p, fmt.Errorf("read pid %d: %w", pid, err)
	}
	if now, err := s.kernel.Identify(pid); err != nil || now != p.id {
		return p, otherProcess(ref)
	}
	if stat.State == 'Z' || stat.State == 'X' {
		return p, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d has exited", pid), "")
	}
	p.parent, p.uids = stat.Parent, st.UIDs
	return p, nil
}
