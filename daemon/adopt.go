//go:build linux

package daemon

import (
	"fmt"
	"net/http"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
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
	root, err := s.find.Running(req.Root)
	if err != nil {
		return err
	}
	if d := s.mayAdopt(&root, c); !d.Allow {
		return s.access.Refuse(c, access.Adopt, fmt.Sprintf("pid %d", req.Root.PID), d)
	}
	spec.Root, spec.UID = root.ID, root.UIDs[1]
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
func (s *server) mayAdopt(p *lookup.Running, c access.Caller) access.Decision {
	if uid, foreign := p.ForeignTo(c); foreign {
		return access.Decision{Why: fmt.Sprintf("it runs as uid %d", uid), Hint: "run with sudo"}
	}
	if e, err := s.kernel.Lookup(p.ID.PID); err == nil && e.Identity == p.ID {
		return s.find.DecideChain(c, access.End, e.Session)
	}
	return access.Decision{Allow: true}
}
