//go:build linux

package daemon

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
)

const maxLimit = 1 << 43 // ms are 278 years, bytes 8 TiB

// postSession makes a session of the caller's own child, which the caller
// holds blocked before its exec. The caller is the owner: its death ends it.
func (s *server) postSession(w http.ResponseWriter, r *http.Request, c access.Caller) error {
	var req api.NewSession
	if err := s.decode(w, r, &req); err != nil {
		return err
	}
	if req.Adopt {
		return s.postAdopted(w, &req, c)
	}
	if d := access.Decide(c, access.Create, access.Scope{UID: c.UID}); !d.Allow {
		return s.access.Refuse(c, access.Create, "session", d)
	}
	spec, err := s.spec(&req, c)
	if err != nil {
		return err
	}
	if spec.Root, err = s.child(c, req.Root); err != nil {
		return err
	}
	if err := s.enforcer.CheckRoot(spec.Root, c.ID); err != nil {
		return err
	}
	baseline := s.enforcer.Begin()
	secret := make([]byte, 32)
	rand.Read(secret)
	token := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
	var d api.Session
	var refused error
	err = s.registry.Update(func(t registry.Tx) {
		x, err := t.Create(spec)
		if err != nil {
			refused = err
			return
		}
		s.enforcer.Began(x.ID(), baseline)
		s.attribution.SetToken(t.View, x.ID(), sha256.Sum256([]byte(token)))
		t.Save(x)
		d = t.Document(x, c)
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return err
	}
	s.log.Info().Str(logging.KeySession, d.ID).Str(logging.KeyName, d.Name).Uint32(logging.KeyUID, c.UID).Uint32(logging.KeyPID, spec.Root.PID).
		Msg("session created")
	s.access.Done(c, access.Create, d.ID)
	d.Head, d.Token = api.NewHead("session"), token
	return reply(w, http.StatusCreated, d)
}

// spec checks what was asked for, but for the root.
func (s *server) spec(req *api.NewSession, c access.Caller) (spec tracer.SessionSpec, err error) {
	bad := func(format string, args ...any) (tracer.SessionSpec, error) {
		return spec, api.NewError(api.CodeBadRequest, fmt.Sprintf(format, args...), "")
	}
	spec = tracer.SessionSpec{Owner: c.ID, Name: req.Name, UID: c.UID}
	switch {
	case c.Foreign:
		return spec, lookup.Foreign()
	case req.Root.PID == 0:
		return bad("root.pid is missing")
	case req.Root.PID < 0 || req.Root.PID > math.MaxInt32:
		return bad("invalid root.pid %d", req.Root.PID)
	case req.Name != "" && !api.IsSessionWord(req.Name):
		return bad("name %q: want a letter or digit, then up to 63 of A-Z a-z 0-9 . _ -", req.Name)
	case req.MaxProcesses < 0 || req.MaxProcesses > 1<<22:
		return bad("max_processes %d: out of range", req.MaxProcesses)
	}
	for name, v := range map[string]int64{"max_lifetime_ms": req.MaxLifetimeMS, "max_rss_bytes": req.MaxRSSBytes, "idle_ms": req.IdleMS} {
		if v < 0 || v > maxLimit {
			return bad("%s %d: out of range", name, v)
		}
	}
	if req.GraceMS != nil {
		if spec.Grace, err = graceOf(*req.GraceMS); err != nil {
			return spec, err
		}
	}
	switch req.OnRootExit {
	case "", "end":
	case "report":
		// Nothing ends it by itself: neither its root's exit nor its owner's.
		spec.KeepOnRootExit, spec.Owner = true, tracer.Identity{}
	default:
		return bad("on_root_exit %q: want end or report", req.OnRootExit)
	}
	spec.MaxProcesses = uint32(req.MaxProcesses)
	spec.MaxLifetime = time.Duration(req.MaxLifetimeMS) * time.Millisecond
	spec.MaxRSS = uint64(req.MaxRSSBytes)
	spec.Idle = time.Duration(req.IdleMS) * time.Millisecond
	s.rules.Complete(&spec, req.GraceMS != nil)
	return spec, nil
}

func graceOf(ms int64) (time.Duration, error) {
	if ms < 0 || ms > api.MaxGrace.Milliseconds() {
		return 0, api.NewError(api.CodeBadRequest, fmt.Sprintf("grace_ms %d: want 0 to %d", ms, api.MaxGrace.Milliseconds()), "")
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// child names the caller's own live child. The caller has not reaped it, so its
// PID cannot go to another one unseen.
func (s *server) child(c access.Caller, ref api.Ref) (tracer.Identity, error) {
	p, err := s.find.Running(ref)
	if err != nil {
		return p.ID, err
	}
	deny := func(why string) (tracer.Identity, error) {
		return p.ID, s.access.Refuse(c, access.Create, fmt.Sprintf("session of pid %d", ref.PID), access.Decision{Why: why})
	}
	if p.Parent != c.ID.PID {
		return deny("it is not the caller's child")
	}
	if uid, ok := p.ForeignTo(c); ok {
		return deny(fmt.Sprintf("it runs as uid %d", uid))
	}
	return p.ID, nil
}
