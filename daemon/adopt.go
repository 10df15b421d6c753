//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/tracer"
)

// postAdopted makes a session of a process that has been running for some
// time. Its present descendants come with it.
func (s *server) postAdopted(w http.ResponseWriter, req *api.NewSession, c access.Caller) error {
	if d := access.Decide(c, access.Adopt, access.Scope{UID: c.UID}); !d.Allow {
		return s.refuse(c, access.Adopt, fmt.Sprintf("pid %d", req.Root.PID), d)
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
		return s.refuse(c, access.Adopt, fmt.Sprintf("pid %d", req.Root.PID), d)
	}
	spec.Root, spec.UID = root.id, root.uids[1]
	// An ancestor of the caller may be named: an agent's hook adopts the agent. It
	// makes the caller a member, and ends nobody.
	if err := s.enforcer.CheckRoot(spec.Root, tracer.Identity{}); err != nil {
		return err
	}
	info, n, err := s.adopt(spec)
	if err != nil {
		return err
	}
	var d api.Session
	if err := s.registry.do(func() {
		if x := s.registry.sessions[info.ID]; x != nil {
			d = s.registry.session(x, c)
		}
	}); err != nil {
		return err
	}
	s.log.Info().Str(logging.KeySession, d.ID).Str(logging.KeyName, d.Name).Uint32(logging.KeyUID, c.UID).Uint32(logging.KeyPID, spec.Root.PID).
		Int(logging.KeyAdded, n).Msg("process adopted")
	s.done(c, access.Adopt, d.ID)
	d.Head = head("session")
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
	for range maxDepth {
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

// adopt opens a session over a running process and enters its descendants: if
// it is a stranger by the kernel's parents, and if it is a member those whom it
// created, dead creators in between included.
func (s *server) adopt(spec tracer.SessionSpec) (info tracer.SessionInfo, n int, err error) {
	var from tracer.SessionID
	var refused error
	err = s.registry.do(func() {
		if e, err := s.kernel.Lookup(spec.Root.PID); err == nil && e.Identity == spec.Root {
			from = e.Session
		}
		x, err := s.registry.create(spec)
		if refused = err; err == nil {
			info = x.info
		}
	})
	if err = errors.Join(err, refused); err != nil {
		return info, 0, err
	}
	if from != 0 {
		n, err = s.follow(from, info.ID, spec.Root)
	} else {
		n, err = s.kernel.Adopt(info.ID)
	}
	s.refresh(info.ID)
	s.registry.askResync(causeMoved)
	s.sampler.lookAnew() // what it had lost before is found by evidence
	s.registry.askHaste()
	return info, n, err
}

// follow moves the descendants of a process that has changed its session: those
// whose creator is there by the kernel's own word, then those whose creators
// are dead and remembered here, until there are none.
func (s *server) follow(from, to tracer.SessionID, root tracer.Identity) (total int, err error) {
	for range tracer.MaxDepth * 8 {
		n, err := s.kernel.Follow(from, to)
		total += n
		if err != nil {
			return total, err
		}
		var orphans []tracer.Identity
		if err := s.registry.do(func() { orphans = s.registry.orphansOf(from, to, root) }); err != nil {
			return total, err
		}
		moved, err := s.move(orphans, from, to)
		if total += len(moved); err != nil || len(moved) == 0 {
			return total, err
		}
	}
	return total, nil
}

// move moves members, and gives those that were there to be moved.
func (s *server) move(ids []tracer.Identity, from, to tracer.SessionID) (moved []tracer.Identity, err error) {
	for _, id := range ids {
		switch err := s.kernel.Move(id, from, to); {
		case err == nil:
			moved = append(moved, id)
		case errors.Is(err, tracer.ErrNotFound), errors.Is(err, tracer.ErrRoot):
		default:
			return moved, err
		}
	}
	return moved, nil
}

// orphansOf are the members of from that descend from root over creators that
// are dead, and that the kernel has there still.
func (o *Registry) orphansOf(from, to tracer.SessionID, root tracer.Identity) (all []tracer.Identity) {
	for id := range o.graph.Orphans(from) {
		for _, e := range o.graph.Ancestry(id) {
			if e.Creator == root {
				if now, err := o.kernel.Lookup(id.PID); err == nil && now.Identity == id && now.Session == from {
					all = append(all, id)
				}
				break
			}
		}
	}
	return all
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
