//go:build linux

package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/branch"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/plan"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/tracer"
)

// branches ends a process and everything that it ever started, as ends ends a session.
type branches struct {
	ends   *ends
	of     *branch.Branches
	kernel lookup.Kernel
}

// postPlan shows what the end of a branch would do. It sends nothing and moves no
// process.
func (h *branches) postPlan(w http.ResponseWriter, r *http.Request, c access.Caller, req *api.PlanRequest) error {
	b, scope, err := h.find(r.PathValue("ref"), req.Call, c, access.Read)
	if err != nil {
		return err
	}
	d := api.Plan{Head: api.NewHead("plan"), Session: b.From.String(), Branch: document.RefOrNil(b.Of), Call: b.Call, Processes: []api.PlanProcess{}}
	if end := access.Decide(c, access.Branch, scope); !end.Allow {
		d.RefusedBy = "not permitted: " + end.Why
	} else if err := h.check(b, c); err != nil {
		d.RefusedBy = strings.TrimSuffix(err.Error(), "; nothing was sent")
	}
	err = h.ends.registry.Read(func(v registry.View) {
		if x := v.Session(b.From); x != nil {
			d.Name, d.State = x.Info().Name, x.State()
		}
	})
	if err != nil {
		return err
	}
	find := func(tracer.SessionID) ([]tracer.Process, error) { return h.of.Members(b) }
	if err := h.ends.plans.MakeFor(r.Context(), subject(b), find, c, &d); err != nil {
		return err
	}
	shared, err := h.of.Shared(b)
	if err != nil {
		return err
	}
	if d.Ambiguous = shared; shared > 0 && len(d.Processes) == 0 && d.RefusedBy == "" {
		d.RefusedBy = ambiguous(b, shared).Error()
	}
	return reply(w, http.StatusOK, d)
}

// postEnd ends a member and everything that it ever started: they are separated from
// their session, which signals nothing, checked by the guards, and then ended as a
// session.
func (h *branches) postEnd(w http.ResponseWriter, r *http.Request, c access.Caller, req *api.EndRequest) error {
	grace, err := graceAsked(req)
	if err != nil {
		return err
	}
	word := r.PathValue("ref")
	b, _, err := h.find(word, req.Call, c, access.Branch)
	if err != nil {
		return err
	}
	over, err := h.of.Alone(r.Context(), b.From)
	if err != nil {
		return nil // the caller has disconnected
	}
	defer over()
	if err := h.check(b, c); err != nil {
		return h.ends.unended(c, access.Branch, word, word, err)
	}
	if grace < 0 {
		grace = b.Grace
	}
	switch err := h.of.Separate(r.Context(), b); {
	case errors.Is(err, branch.ErrEmpty):
		switch shared, err := h.of.Shared(b); {
		case err != nil:
			return err
		case shared > 0:
			return h.ends.unended(c, access.Branch, word, "call "+b.Call, ambiguous(b, shared))
		}
		return api.NewError(api.CodeNotFound, fmt.Sprintf("end %v: %v", b, err), "")
	case err != nil:
		return err
	}
	if err := h.checkSeparated(b, req.PlanToken, c); err != nil {
		if rerr := h.of.Rejoin(b); rerr != nil {
			h.ends.log.Error().Err(rerr).Str(logging.KeySession, b.ID.String()).Msg("branch not given back")
		}
		return h.ends.unended(c, access.Branch, word, word, err)
	}
	if grace > 0 {
		for _, id := range b.Sessions() {
			h.ends.holdings.CollectBefore(id)
		}
	}
	for _, id := range b.Sessions() {
		if err := h.ends.registry.End(id, grace, c); err != nil {
			return err
		}
	}
	return h.reply(w, b, c)
}

// subject is what a plan for the end of a branch is about.
func subject(b *branch.Branch) plan.Subject {
	return plan.Subject{Session: b.From, Root: b.Of, Call: b.Call}
}

// find finds a member by its identity, alive or dead, and decides about v. With a call the branch is
// what the member started in it.
func (h *branches) find(word, call string, c access.Caller, v access.Verb) (*branch.Branch, access.Scope, error) {
	ref, err := api.ParseRef(word)
	if err == nil && ref.StartNS == 0 {
		err = fmt.Errorf("end %s: want PID@START_NS", word)
	}
	if err != nil {
		return nil, access.Scope{}, api.NewError(api.CodeBadRequest, err.Error(), `"lineage tree -o name" prints it`)
	}
	id, live, err := h.ends.find.Identity(word, c)
	if err == nil && id != document.ID(ref) {
		err = lookup.OtherProcess(ref)
	}
	if err != nil {
		return nil, access.Scope{}, unsent(err)
	}
	p, scope, err := h.ends.find.Look(id, live, c)
	if err != nil {
		return nil, scope, err
	}
	if p.Session == "" {
		v = access.Read // nothing to end; may the caller know that?
	}
	if d := access.Decide(c, v, scope); !d.Allow {
		return nil, scope, h.ends.access.Refuse(c, v, word, d)
	}
	b := &branch.Branch{Of: id, Call: call}
	err = h.ends.registry.Read(func(view registry.View) {
		if len(scope.Chain) == 0 {
			return
		}
		if x := view.Session(scope.Chain[0]); x != nil && x.Active() {
			b.From, b.Grace, b.UID = x.ID(), x.Info().Grace, x.Info().UID
		}
	})
	if err == nil && b.From == 0 {
		err = api.NewError(api.CodeNotFound, fmt.Sprintf("pid %d is not in a session, or its session is ending: nothing to end", id.PID), "")
	}
	return b, scope, err
}

// check refuses a process whose end would end more than its branch.
func (h *branches) check(b *branch.Branch, c access.Caller) error {
	info, err := h.kernel.Session(b.From)
	if err != nil {
		return err
	}
	guarded := func(why string, session tracer.SessionID) error {
		return &enforcer.Refusal{Kind: enforcer.ErrGuarded, Process: b.Of, Why: fmt.Sprintf("%s session %v: end that session", why, session)}
	}
	members, err := h.of.Members(b)
	if err != nil {
		return err
	}
	ends := func(id tracer.Identity) bool {
		return b.Call == "" && id == b.Of || slices.ContainsFunc(members, func(p tracer.Process) bool { return p.Identity == id })
	}
	if ends(info.Root) {
		return guarded("is the root of", info.ID)
	}
	owned, err := registry.Ask(h.ends.registry, func(v registry.View) (owned tracer.SessionID) {
		for x := range v.Sessions() {
			if !x.Closed() && x.Info().Owner == b.Of && b.Call == "" {
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
	return h.ends.enforcer.CheckMembers(members, c.ID)
}

// ambiguous refuses to end processes that the branch's call, or another one, started.
func ambiguous(b *branch.Branch, shared int) *enforcer.Refusal {
	return &enforcer.Refusal{Kind: enforcer.ErrGuarded, Process: b.Of,
		Why: fmt.Sprintf("has reported several calls that may have started the same processes (%d): end each with --branch", shared)}
}

// checkSeparated runs right before the first signal. A caller that is not the session's
// user must own every process: the session may be root's.
func (h *branches) checkSeparated(b *branch.Branch, token string, c access.Caller) error {
	members, err := h.of.Members(b)
	if err != nil {
		return err
	}
	if err := h.ends.enforcer.CheckMembers(members, c.ID); err != nil {
		return err
	}
	for i := range members {
		if p := &members[i]; c.UID != 0 && c.UID != b.UID && p.UID != c.UID {
			return api.NewError(api.CodeDenied, fmt.Sprintf("pid %d runs as uid %d; nothing was sent", p.PID, p.UID), "")
		}
	}
	if token == "" {
		return nil
	}
	return h.ends.plans.CheckMembers(token, subject(b), members)
}

// reply sends the report of the branch's session, which names the others.
func (h *branches) reply(w http.ResponseWriter, b *branch.Branch, c access.Caller) error {
	report, err := registry.Ask(h.ends.registry, func(v registry.View) *api.Report {
		x := v.Session(b.Sessions()[0])
		if x == nil {
			return nil
		}
		v.Refresh(x)
		return v.Report(x, c)
	})
	switch {
	case err != nil:
		return err
	case report == nil:
		return fmt.Errorf("session %v of the branch: %w", b.Sessions()[0], tracer.ErrNotFound)
	}
	d := unnamed(report)
	for _, id := range b.Sessions()[1:] {
		d.Also = append(d.Also, id.String())
	}
	return reply(w, http.StatusAccepted, d)
}
