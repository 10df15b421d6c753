//go:build linux

package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/acts"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer"
	"golang.org/x/sys/unix"
)

var signals = map[string]unix.Signal{"TERM": unix.SIGTERM, "KILL": unix.SIGKILL, "CONT": unix.SIGCONT}

// postKill signals one member. It has to be named by its identity: a PID alone may be
// reused by the time that the request is read.
func (h *acting) postKill(w http.ResponseWriter, r *http.Request, c access.Caller, _ url.Values) error {
	var req api.KillRequest
	if err := (bodies{h.Send}).decode(w, r, &req); err != nil {
		return err
	}
	sig, ok := signals[req.Signal]
	if !ok {
		return api.NewError(api.CodeBadRequest, fmt.Sprintf("unknown signal %q", req.Signal),
			"known: "+strings.Join(slices.Sorted(maps.Keys(signals)), ", "))
	}
	word := r.PathValue("ref")
	ref, err := api.ParseRef(word)
	if err != nil {
		return api.NewError(api.CodeBadRequest, err.Error(), "")
	}
	if ref.StartNS == 0 {
		return api.NewError(api.CodeBadRequest, fmt.Sprintf("kill %s: must be PID@START_NS", ref),
			`"lineage tree -o name" prints it`)
	}
	if c.Foreign {
		return lookup.Foreign(c)
	}
	id := document.ID(ref)
	if now, err := h.Kernel.Identify(id.PID); err == nil && now != id {
		return h.Access.Unsignalled(c, "", ref, acts.Unsent(lookup.OtherProcess(ref)))
	}
	_, live, err := h.Find.Identity(word, c)
	if err != nil {
		return err
	}
	p, t, err := h.Find.Look(id, live, c)
	if err != nil {
		return err
	}
	v := access.Kill
	if p.Session == "" {
		v = access.Read // nothing to signal; may the caller know that?
	}
	if d := access.Decide(c, v, t); !d.Allow {
		return h.Access.Refuse(c, access.Kill, ref.String(), d)
	}
	if v == access.Read { // it may become a member now, and Kill was not decided
		return h.Access.Unsignalled(c, "", ref,
			acts.Refused("kill "+ref.String(), enforcer.Outsider(id, p.Comm)))
	}
	outcome, err := h.Enforcer.Signal(id, c.ID, sig)
	if err != nil {
		return h.Access.Unsignalled(c, p.Session, ref, acts.Refused("kill "+ref.String(), err))
	}
	h.Log.Info().Str(system.KeyVerb, access.Kill.String()).
		Str(system.KeySession, p.Session).Str(system.KeySignal, req.Signal).
		Int(system.KeyTarget, ref.PID).EmbedObject(c).Str(system.KeyReason,
		outcome.String()).Msg("member signalled")
	h.Access.Done(c, access.Kill, "SIG"+req.Signal+": "+outcome.String(), p.Session, ref)
	return reply(w, http.StatusOK, api.Killed{Head: api.NewHead("killed"), Process: *p, Outcome: outcome.String()})
}

func pausing(of *acts.Acts, none reader[*struct{}], verb access.Verb) route {
	return onTarget(none, func(w http.ResponseWriter, r *http.Request, c access.Caller, _ *struct{}) error {
		d, err := of.Pause(r.Context(), r.PathValue("s"), c, verb)
		return send(w, http.StatusOK, d, acts.Refused(verb.String()+" "+r.PathValue("s"), err))
	}, verb)
}
