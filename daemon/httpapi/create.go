//go:build linux

package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/acts"
	"github.com/lineage-ebpf/lineage/daemon/cgroup"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
)

// postSession opens a session over the caller's own child, which the caller holds
// blocked before its exec. The caller is the owner: its death ends the session.
func (h *acting) postSession(w http.ResponseWriter, r *http.Request, c access.Caller,
	req *api.NewSession) error {
	if req.Adopt {
		return h.postAdopted(w, req, c)
	}
	if d := access.Decide(c, access.Create, access.Scope{UID: c.UID}); !d.Allow {
		return h.Access.Refuse(c, access.Create, "session", d)
	}
	spec, err := h.spec(req, c)
	if err != nil {
		return err
	}
	if spec.Root, err = h.child(c, req.Root); err != nil {
		return err
	}
	if err := h.Enforcer.CheckRoot(spec.Root, c.ID); err != nil {
		return err
	}
	group := ""
	req.Limits = h.Rules.Limited(req.Limits, spec.UID)
	if req.Limits != nil { // the root waits: its first instruction is in the group already
		if group, err = h.Groups.Make(spec.Root, req.Limits); err != nil {
			return err
		}
	}
	secret := make([]byte, 32)
	rand.Read(secret)
	token := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret)
	d, err := h.exclusively(r.Context(), c, &spec, req.Exclusive, func() (api.Session, error) {
		baseline := h.Enforcer.Begin()
		return registry.Change(h.Registry, func(t registry.Tx) (d api.Session, err error) {
			x, err := t.Create(spec)
			if err != nil {
				return d, err
			}
			x.SetTimeout(time.Duration(req.TimeoutMS) * time.Millisecond)
			h.Enforcer.Began(x.ID(), baseline)
			h.Attribution.SetToken(t.View, x.ID(), sha256.Sum256([]byte(token)))
			if req.Limits != nil {
				h.Groups.Bind(x.ID(), group, req.Limits, false)
			}
			t.Save(x)
			return t.Document(x, c), nil
		})
	})
	if err != nil {
		h.Groups.Drop(group)
		return err
	}
	h.Log.Info().Str(system.KeySession, d.ID).Str(system.KeyName, d.Name).
		Uint32(system.KeyUID, c.UID).Uint32(system.KeyPID, spec.Root.PID).
		Msg("session created")
	h.Access.Done(c, access.Create, "", d.ID, api.Ref{})
	d.Head, d.Token, d.Warnings = api.NewHead("session"), token, h.Steward.Unrefused(spec.Protection.Spare != tracer.SpareNone)
	return reply(w, http.StatusCreated, d)
}

// exclusively calls create until the name is free, at its turn. To replace a session, it ends that.
func (h *acting) exclusively(ctx context.Context, c access.Caller, spec *tracer.SessionSpec, how string,
	create func() (api.Session, error)) (d api.Session, err error) {
	if how == "" {
		return create()
	}
	place, err := registry.Change(h.Registry,
		func(t registry.Tx) (*registry.Place, error) { return t.Queue(spec) })
	if err != nil {
		return d, err
	}
	defer h.Registry.Do(func(t registry.Tx) { t.Leave(place) })
	for replaced := []string(nil); ; {
		d, err = create()
		d.Replaced = replaced
		busy, ok := errors.AsType[*registry.Obstacle](err)
		if !ok || busy.Until == nil || how == api.ExclusiveFail {
			return d, err
		}
		if how == api.ExclusiveReplace && busy.Has != 0 {
			replaced = append(replaced, busy.Has.String())
			if _, err := h.Acts.EndSession(busy.Has.String(),
				&acts.Order{Caller: c, Grace: -1}); err != nil {
				return d, err
			}
		}
		select {
		case <-busy.Until:
		case <-h.Stopping:
			return d, registry.ErrStopping
		case <-ctx.Done():
			return d, api.NewError(api.CodeTimedOut, "the caller has gone", "")
		}
	}
}

// spec checks the request, except for the root.
func (h *acting) spec(req *api.NewSession, c access.Caller) (spec tracer.SessionSpec, err error) {
	bad := func(format string, args ...any) (tracer.SessionSpec, error) {
		return spec, api.Errorf(api.CodeBadRequest, format, args...)
	}
	spec = tracer.SessionSpec{Owner: c.ID, Name: req.Name, UID: c.UID, Requested: true}
	switch {
	case c.Foreign:
		return spec, lookup.Foreign(c)
	case req.Root.PID == 0:
		return bad("root.pid is missing")
	case req.Root.PID < 0 || req.Root.PID > math.MaxInt32:
		return bad("invalid root.pid %d", req.Root.PID)
	case req.Name != "" && !api.IsSessionWord(req.Name):
		return spec, badName(req.Name)
	case req.Exclusive != "" && (req.Name == "" || req.Adopt):
		return bad("exclusive needs a name, and a child that has not begun")
	case !slices.Contains(api.Exclusive, cmp.Or(req.Exclusive, api.ExclusiveFail)):
		return bad("invalid exclusive %q: must be one of %s", req.Exclusive,
			strings.Join(api.Exclusive, ", "))
	case req.MaxProcesses < 0 || req.MaxProcesses > 1<<22:
		return bad("invalid max_processes %d: must be 0 to 4194304", req.MaxProcesses)
	}
	for name, v := range map[string]int64{"max_lifetime_ms": req.MaxLifetimeMS,
		"max_rss_bytes": req.MaxRSSBytes, "idle_ms": req.IdleMS, "timeout_ms": req.TimeoutMS} {
		if v < 0 || v > api.MaxLimit {
			return bad("invalid %s %d: must be 0 to %d", name, v, int64(api.MaxLimit))
		}
	}
	if req.Limits != nil {
		if err := cgroup.Check(req.Limits); err != nil {
			return bad("%v", err)
		}
	}
	if req.GraceMS != nil {
		if spec.Grace, err = graceOf(*req.GraceMS); err != nil {
			return spec, err
		}
	}
	switch req.Spare {
	case "":
	case "root":
		spec.Protection.Spare = tracer.SpareRefuse
	default:
		return bad("invalid spare %q: must be root", req.Spare)
	}
	switch req.OnRootExit {
	case "", "end":
	case "report":
		// Nothing ends it automatically: neither its root's exit nor its owner's.
		spec.KeepOnRootExit, spec.Owner = true, tracer.Identity{}
	case "owner":
		// Its owner ends it, at the latest by its own exit.
		spec.KeepOnRootExit = true
	default:
		return bad("invalid on_root_exit %q: must be end, report or owner", req.OnRootExit)
	}
	spec.MaxProcesses = uint32(req.MaxProcesses)
	spec.MaxLifetime = time.Duration(req.MaxLifetimeMS) * time.Millisecond
	spec.MaxRSS = uint64(req.MaxRSSBytes)
	spec.Idle = time.Duration(req.IdleMS) * time.Millisecond
	h.Rules.Complete(&spec, req.GraceMS != nil)
	return spec, nil
}

func badName(name string) error {
	return api.Errorf(api.CodeBadRequest, "invalid name %q: must be %s", name, api.ASessionWord)
}

func graceOf(ms int64) (time.Duration, error) {
	if ms < 0 || ms > api.MaxGrace.Milliseconds() {
		return 0, api.Errorf(api.CodeBadRequest, "invalid grace_ms %d: must be 0 to %d",
			ms, api.MaxGrace.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// child names the caller's own live child. The caller has not reaped it, so its PID
// cannot be reused unseen.
func (h *acting) child(c access.Caller, ref api.Ref) (tracer.Identity, error) {
	p, err := h.Find.Running(ref)
	if err != nil {
		return p.ID, err
	}
	deny := func(why string) (tracer.Identity, error) {
		return p.ID, h.Access.Refuse(c, access.Create, fmt.Sprintf("session of pid %d", ref.PID),
			access.Decision{Why: why})
	}
	if p.Parent != c.ID.PID {
		return deny("it is not the caller's child")
	}
	if uid, ok := p.ForeignTo(c); ok {
		return deny(fmt.Sprintf("it runs as uid %d", uid))
	}
	return p.ID, nil
}

// postAdopted opens a session over a process that runs already, with its present
// descendants.
func (h *acting) postAdopted(w http.ResponseWriter, req *api.NewSession, c access.Caller) error {
	if d := access.Decide(c, access.Adopt, access.Scope{UID: c.UID}); !d.Allow {
		return h.Access.Refuse(c, access.Adopt, fmt.Sprintf("pid %d", req.Root.PID), d)
	}
	spec, err := h.spec(req, c)
	if err != nil {
		return err
	}
	if req.OnRootExit == "owner" {
		return api.NewError(api.CodeBadRequest,
			"invalid on_root_exit owner: an adopted session has no owner", "")
	}
	spec.Owner, spec.Adopted = tracer.Identity{}, true
	root, err := h.Find.Running(req.Root)
	if err != nil {
		return err
	}
	if d := h.mayAdopt(&root, c); !d.Allow {
		return h.Access.Refuse(c, access.Adopt, fmt.Sprintf("pid %d", req.Root.PID), d)
	}
	spec.Root, spec.UID = root.ID, root.UIDs[1]
	// An ancestor of the caller may be named: an agent's hook adopts the agent. It
	// makes the caller a member, and ends no process.
	if err := h.Enforcer.CheckRoot(spec.Root, tracer.Identity{}); err != nil {
		return err
	}
	info, n, err := h.Registry.Adopt(spec, c.UID)
	if err != nil {
		return err
	}
	if req.Limits != nil {
		if err := h.Groups.Gather(info.ID, spec.Root, req.Limits); err != nil {
			_, undo := h.Kernel.Dissolve(info.ID)
			h.Registry.Do(func(t registry.Tx) { t.LetGo(info.ID) })
			return errors.Join(err, undo)
		}
	}
	// From now on each answer says what the members use, hold and run.
	_, err = h.Registry.Resync(registry.CauseMoved)
	system.Failure(h.Log, err).Msg("state of the kernel side not read")
	d, err := documentOf(h.Registry, info.ID, c)
	if err != nil {
		return err
	}
	h.Log.Info().Str(system.KeySession, d.ID).Str(system.KeyName, d.Name).
		Uint32(system.KeyUID, c.UID).Uint32(system.KeyPID, spec.Root.PID).
		Int(system.KeyAdded, n).Msg("process adopted")
	h.Access.Done(c, access.Adopt, "", d.ID, api.Ref{})
	d.Head, d.Warnings = api.NewHead("session"), h.leftOut(c, info.ID)
	return reply(w, http.StatusCreated, d)
}

// documentOf is a session as it is now; empty if it is gone.
func documentOf(r *registry.Registry, id tracer.SessionID, c access.Caller) (api.Session, error) {
	return registry.Ask(r, func(v registry.View) (d api.Session) {
		if x := v.Session(id); x != nil {
			d = v.Document(x, c)
		}
		return d
	})
}

// mayAdopt decides about a process and the sessions that it is in: once adopted it
// could be kept, and would be out of their reach.
func (h *acting) mayAdopt(p *lookup.Running, c access.Caller) access.Decision {
	if uid, foreign := p.ForeignTo(c); foreign {
		return access.Decision{Why: fmt.Sprintf("it runs as uid %d", uid), Hint: "run with sudo"}
	}
	if e, err := h.Kernel.Lookup(p.ID.PID); err == nil && e.Identity == p.ID {
		return h.Find.DecideChain(c, access.End, e.Session)
	}
	return access.Decision{Allow: true}
}

// maxLeftOut bounds the processes that a reply names.
const maxLeftOut = 16

// leftOut names the children of members that were not adopted with them: the caller may not signal them.
func (h *acting) leftOut(c access.Caller, id tracer.SessionID) (warnings []string) {
	if c.UID == 0 {
		return nil
	}
	members, left := make(map[tracer.Identity]bool), []tracer.Process(nil)
	if err := h.Kernel.Snapshot(0, func(p *tracer.Process) error {
		switch {
		case p.Dead:
		case p.Session == id:
			members[p.Identity] = true
		case p.Session == 0 && !p.Kernel && p.Flags&tracer.FlagProtected == 0:
			left = append(left, *p)
		}
		return nil
	}); err != nil {
		return []string{"processes of other users are not adopted, and their names are not known"}
	}
	more := 0
	for _, p := range left {
		switch {
		case !members[p.Parent]:
		case len(warnings) < maxLeftOut:
			warnings = append(warnings, fmt.Sprintf("pid %d (%s) and its descendants are not adopted: it runs as uid %d; run with sudo to adopt them",
				p.PID, p.Comm, p.UID))
		default:
			more++
		}
	}
	if more > 0 {
		warnings = append(warnings, fmt.Sprintf("%d more processes of other users are not adopted", more))
	}
	return warnings
}
