//go:build linux

package acts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
)

// EndBranch ends a branch: it is separated from its session, which signals nothing, and then ended as a session.
func (a *Acts) EndBranch(ctx context.Context, word, call string, o *Order) (*api.Report, error) {
	b, _, err := a.findBranch(word, call, o.Caller, access.Branch)
	if err != nil {
		return nil, err
	}
	over, err := a.alone(ctx, b.Session)
	if err != nil {
		return nil, err
	}
	defer over()
	refuse := func(err error) { a.o.Access.Refused(o.Caller, access.Branch, word, err.Error()) }
	if err := a.checkBranch(b, o.Caller); err != nil {
		refuse(err)
		return nil, Refused("end "+word, err)
	}
	if err := a.separate(ctx, b); errors.Is(err, errEmpty) {
		switch shared, serr := a.shared(b); {
		case serr != nil:
			return nil, serr
		case shared > 0:
			refuse(ambiguous(b, shared))
			return nil, Refused("end call "+b.Call, ambiguous(b, shared))
		}
		return nil, api.Errorf(api.CodeNotFound, "end %v: %v", b, err)
	} else if err != nil {
		return nil, err
	}
	t := &Target{branch: b}
	for _, id := range b.Sessions() {
		t.Sessions = append(t.Sessions, tracer.SessionInfo{ID: id,
			State: tracer.StateActive, Grace: b.Grace})
	}
	o.Refuse = func(err error) {
		if rerr := a.rejoin(b); rerr != nil {
			a.o.Log.Error().Err(rerr).Str(system.KeySession, b.ID.String()).Msg("branch not given back")
		}
		refuse(err)
	}
	if _, err := a.End(t, o); err != nil {
		return nil, Refused("end "+word, err)
	}
	return a.receipt(b.Sessions(), o.Caller)
}

// PlanBranch shows what the end of a branch would do. It sends nothing and moves no process.
func (a *Acts) PlanBranch(ctx context.Context, word, call string, c access.Caller) (*api.Plan, error) {
	b, scope, err := a.findBranch(word, call, c, access.Read)
	if err != nil {
		return nil, err
	}
	d := &api.Plan{Head: api.NewHead("plan"), Session: b.Session.String(),
		Branch: document.RefOrNil(b.Root), Call: b.Call, Processes: []api.PlanProcess{}}
	if end := access.Decide(c, access.Branch, scope); !end.Allow {
		d.RefusedBy = "not permitted: " + end.Why
	} else if err := a.checkBranch(b, c); err != nil {
		d.RefusedBy = strings.TrimSuffix(err.Error(), "; nothing was sent")
	}
	if err := a.plan(ctx, &Target{branch: b}, c, d); err != nil {
		return nil, err
	}
	shared, err := a.shared(b)
	if d.Ambiguous = shared; shared > 0 && len(d.Processes) == 0 && d.RefusedBy == "" {
		d.RefusedBy = ambiguous(b, shared).Error()
	}
	return d, err
}

// findBranch finds a member by its identity, alive or dead, and decides about v. With a call the branch is
// what the member started in it.
func (a *Acts) findBranch(word, call string, c access.Caller, v access.Verb) (*Branch, access.Scope, error) {
	ref, err := api.ParseRef(word)
	if err == nil && ref.StartNS == 0 {
		err = fmt.Errorf("end %s: want PID@START_NS", word)
	}
	if err != nil {
		return nil, access.Scope{}, api.NewError(api.CodeBadRequest, err.Error(),
			`"lineage tree -o name" prints it`)
	}
	id, live, err := a.o.Find.Identity(word, c)
	if err == nil && id != document.ID(ref) {
		err = lookup.OtherProcess(ref)
	}
	if err != nil {
		return nil, access.Scope{}, Unsent(err)
	}
	p, scope, err := a.o.Find.Look(id, live, c)
	if err != nil {
		return nil, scope, err
	}
	if p.Session == "" {
		v = access.Read // nothing to end; may the caller know that?
	}
	if d := access.Decide(c, v, scope); !d.Allow {
		return nil, scope, a.o.Access.Refuse(c, v, word, d)
	}
	b := &Branch{Subject: Subject{Root: id, Call: call}}
	err = a.o.Registry.Read(func(view registry.View) {
		if len(scope.Chain) == 0 {
			return
		}
		if x := view.Session(scope.Chain[0]); x != nil && x.Active() {
			b.Session, b.Grace, b.UID = x.ID(), x.Info().Grace, x.Info().UID
		}
	})
	if err == nil && b.Session == 0 {
		err = api.Errorf(api.CodeNotFound, "pid %d is not in a session, or its session is ending: nothing to end", id.PID)
	}
	return b, scope, err
}

// checkBranch refuses a process whose end would end more than its branch.
func (a *Acts) checkBranch(b *Branch, c access.Caller) error {
	info, err := a.o.Kernel.Session(b.Session)
	if err != nil {
		return err
	}
	guarded := func(why string, session tracer.SessionID) error {
		return &enforcer.Refusal{Kind: enforcer.ErrGuarded, Process: b.Root,
			Why: fmt.Sprintf("%s session %v: end that session", why, session)}
	}
	members, err := a.branchMembers(b)
	if err != nil {
		return err
	}
	ends := func(id tracer.Identity) bool {
		return b.Call == "" && id == b.Root || slices.ContainsFunc(members,
			func(p tracer.Process) bool { return p.Identity == id })
	}
	if ends(info.Root) {
		return guarded("is the root of", info.ID)
	}
	owned, err := registry.Ask(a.o.Registry, func(v registry.View) (owned tracer.SessionID) {
		for x := range v.Sessions() {
			if !x.Closed() && x.Info().Owner == b.Root && b.Call == "" {
				owned = x.ID()
			}
		}
		return owned
	})
	switch {
	case err != nil:
		return err
	case owned != 0:
		return guarded("is the owner of", owned)
	}
	return a.o.Enforcer.CheckMembers(members, c.ID)
}

// ambiguous refuses to end processes that the branch's call, or another one, started.
func ambiguous(b *Branch, shared int) *enforcer.Refusal {
	return &enforcer.Refusal{Kind: enforcer.ErrGuarded, Process: b.Root,
		Why: fmt.Sprintf("has reported several calls that may have started the same processes (%d): end each with --branch", shared)}
}

// owns refuses to end what runs as another user: who is not the session's user must own every process, as that may be root.
func (a *Acts) owns(b *Branch, c access.Caller) error {
	members, err := a.branchMembers(b)
	for i := range members {
		if p := &members[i]; c.UID != 0 && c.UID != b.UID && p.UID != c.UID {
			return api.Errorf(api.CodeDenied, "pid %d runs as uid %d; nothing was sent", p.PID, p.UID)
		}
	}
	return err
}
