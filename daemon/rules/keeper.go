//go:build linux

package rules

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	maxKept   = 256 // processes of one request
	maxKeeps  = 256 // live kept sessions of one user: a keep by request costs the daemon up to 50 ms of CPU
	maxReason = 1000
)

// Keeper hands members over. Its methods may be called from any goroutine.
type Keeper struct {
	registry.Ground
	Find    *lookup.Finder
	Access  *access.Access
	Rules   *Policy
	Steward *Steward
}

type handover struct {
	processes []tracer.Identity
	from      tracer.SessionInfo
	name      string
	why       Kept
	until     time.Time
}

// Keep hands over what a request names, to a kept session.
func (k *Keeper) Keep(req *api.KeepRequest, c access.Caller) (kept tracer.SessionID, err error) {
	h, err := k.check(req, c)
	if err == nil {
		kept, err = k.handOver(h, c)
	}
	return kept, err
}

// check returns what a request hands over, or why it is refused. A member may not decide what outlives its
// session: a keep rule of the policy decides, and sets until when.
func (k *Keeper) check(req *api.KeepRequest, c access.Caller) (*handover, error) {
	bad := func(format string, args ...any) (*handover, error) {
		return nil, api.Errorf(api.CodeBadRequest, format, args...)
	}
	switch {
	case c.Foreign:
		return nil, lookup.Foreign(c)
	case len(req.Refs) == 0 || len(req.Refs) > maxKept:
		return bad("invalid refs: must be 1 to %d processes", maxKept)
	case strings.TrimSpace(req.Reason) == "" || len(req.Reason) > maxReason:
		return bad("invalid reason: must be a text of at most %d bytes", maxReason)
	case !req.Until.After(time.Now()):
		return bad("invalid until %s: must be in the future", req.Until.Format(time.RFC3339))
	}
	if c.Member != 0 {
		return k.byRule(req, c)
	}
	h := &handover{name: req.Name, why: Kept{Reason: req.Reason, By: c.Document()}, until: req.Until}
	for _, ref := range req.Refs {
		if ref.StartNS == 0 {
			return nil, api.NewError(api.CodeBadRequest, fmt.Sprintf("keep %v: must be PID@START_NS", ref),
				`"lineage tree -o name" prints it`)
		}
		id, live, err := k.Find.Identity(ref.String(), c)
		if err != nil {
			return nil, err
		}
		info, err := k.former(id, live, c)
		if err != nil {
			return nil, err
		}
		if len(h.processes) > 0 && info.ID != h.from.ID {
			return bad(
				"pid %d is in session %v, pid %d in %v: keep them with one request for each session",
				id.PID,
				info.ID,
				h.processes[0].PID,
				h.from.ID,
			)
		}
		h.processes, h.from = append(h.processes, id), info
	}
	return h, k.room(h.from.UID)
}

// room refuses one more kept session of a user who has too many. Keep rules are not limited: they are the
// operator's.
func (k *Keeper) room(uid uint32) error {
	kept, err := registry.Ask(k.Registry, func(v registry.View) (n int) {
		for x := range v.Sessions() {
			if info := x.Info(); info.Kept && info.UID == uid && !x.Closed() {
				n++
			}
		}
		return n
	})
	if err == nil && kept >= maxKeeps {
		err = api.NewError(api.CodeTooMany, fmt.Sprintf("keep: uid %d has %d kept sessions already", uid, kept),
			"end some of them first")
	}
	return err
}

// former is the session that a process would be handed over from.
func (k *Keeper) former(id tracer.Identity, live bool, c access.Caller) (info tracer.SessionInfo, err error) {
	e, lerr := k.Kernel.Lookup(id.PID)
	member := live && lerr == nil && e.Identity == id && e.Session != 0
	if member {
		info, err = registry.Ask(k.Registry,
			func(v registry.View) tracer.SessionInfo { return v.Ask(e.Session).Info() })
	}
	d := access.Decide(c, access.Keep, access.Scope{UID: c.UID})
	if info.ID != 0 && d.Allow {
		d = k.Find.DecideChain(c, access.Keep, info.ID) // the kept session will be nested in none of these
	}
	switch {
	case err != nil:
		return info, err
	case !d.Allow:
		return info, k.Access.Refuse(c, access.Keep, fmt.Sprintf("pid %d", id.PID), d)
	case !live:
		return info, api.Errorf(api.CodeNotFound, "pid %d has exited", id.PID)
	case info.ID == 0:
		return info, api.Errorf(api.CodeNotFound,
			"pid %d is in no session, so lineage will not end it", id.PID)
	case info.Kept:
		return info, api.Errorf(api.CodeBadRequest, "pid %d is already kept, in session %v", id.PID, info.ID)
	case info.Root == id:
		return info, errRoot(id)
	case e.Flags&tracer.FlagProtected != 0:
		return info, errProtected(id)
	}
	return info, nil
}

// byRule is check for a member. If no rule matches, the refusal names the missing rule.
func (k *Keeper) byRule(req *api.KeepRequest, c access.Caller) (*handover, error) {
	if len(req.Refs) != 1 || req.Refs[0].StartNS == 0 {
		return nil, api.NewError(api.CodeBadRequest,
			"invalid refs: a member names one process, as PID@START_NS", "")
	}
	id, live, err := k.Find.Identity(req.Refs[0].String(), c)
	if err != nil {
		return nil, err
	}
	_, scope, err := k.Find.Look(id, live, c)
	if err != nil {
		return nil, err
	}
	refused := access.Decide(c, access.Keep, scope)
	refuse := func() (*handover, error) {
		return nil, k.Access.Refuse(c, access.Keep, fmt.Sprintf("pid %d", id.PID), refused)
	}
	if !access.Decide(c, access.Read, scope).Allow || !live {
		return refuse()
	}
	facts := k.Steward.RootFacts(id)
	rule := k.Rules.Policy().Keeps(facts, time.Now())
	if rule == nil {
		exe := "/PATH"
		if facts != nil && facts.Exe != "" {
			exe = facts.Exe
		}
		refused.Why += fmt.Sprintf(", and no keep rule of the policy matches exe %q", exe)
		if why := facts.Unproven(); why != "" {
			refused.Why += ": " + why
		} else {
			refused.Hint = fmt.Sprintf(
				"ask an operator to add to the policy: keep: [{name: NAME, match: {exe: %q}, reason: %q, until: DATE}]",
				exe,
				req.Reason,
			)
		}
		return refuse()
	}
	from, err := k.Kernel.Session(scope.Chain[0])
	if err != nil {
		return nil, err
	}
	why := Kept{Reason: rule.Reason, Rule: rule.Name, By: c.Document()}
	return &handover{[]tracer.Identity{id}, from, req.Name, why, rule.Until.Time()}, k.room(from.UID)
}

func (k *Keeper) handOver(h *handover, c access.Caller) (tracer.SessionID, error) {
	first := h.processes[0]
	info, err := k.Steward.Keep(h.from, h.processes, h.name, h.why, h.until)
	switch {
	case errors.Is(err, tracer.ErrRoot):
		return 0, errRoot(first)
	case errors.Is(err, tracer.ErrNotFound):
		return 0, api.Errorf(api.CodeNotFound, "keep pid %d: it has exited or left its session", first.PID)
	case errors.Is(err, tracer.ErrProtected):
		return 0, errProtected(first)
	case err != nil:
		return 0, err
	}
	// From now on each answer says what the members of both sessions use and hold.
	_, err = k.Registry.Resync(registry.CauseMoved)
	system.Failure(k.Log, err).Msg("state of the kernel side not read")
	k.Log.Info().Str(system.KeySession, info.ID.String()).
		Str(system.KeyName, info.Name).Uint32(system.KeyUID, c.UID).Uint32(system.KeyPID, first.PID).
		Msg("process kept")
	for _, id := range h.processes {
		why := fmt.Sprintf("from session %v, until %s: %s", h.from.ID,
			h.until.UTC().Format(time.RFC3339), h.why.Reason)
		k.Access.Done(c, access.Keep, why, info.ID.String(), document.Ref(id))
	}
	return info.ID, nil
}

func errRoot(id tracer.Identity) error {
	return api.NewError(
		api.CodeGuarded,
		fmt.Sprintf("keep pid %d: it is the root of its session, which lasts as long as it runs", id.PID),
		"keep what it started",
	)
}

func errProtected(id tracer.Identity) error {
	return api.Errorf(api.CodeGuarded, "keep pid %d: it is protected: nothing ends it", id.PID)
}
