//go:build linux

package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/tracer"
)

// keepByRule answers a member. A member may not decide what outlives its session; a
// keep rule of the policy may, and sets until when. If none matches, the refusal names
// the missing rule.
func (h *keeps) keepByRule(w http.ResponseWriter, req *api.KeepRequest, c access.Caller) error {
	if len(req.Refs) != 1 || req.Refs[0].StartNS == 0 {
		return api.NewError(api.CodeBadRequest, "invalid refs: a member names one process, as PID@START_NS", "")
	}
	id, live, err := h.find.Identity(req.Refs[0].String(), c)
	if err != nil {
		return err
	}
	_, scope, err := h.find.Look(id, live, c)
	if err != nil {
		return err
	}
	refused := access.Decide(c, access.Keep, scope)
	if !access.Decide(c, access.Read, scope).Allow || !live {
		return h.access.Refuse(c, access.Keep, fmt.Sprintf("pid %d", id.PID), refused)
	}
	facts := h.steward.RootFacts(id)
	rule := h.rules.Policy().Keeps(facts, time.Now())
	if rule == nil {
		exe := "/PATH"
		if facts != nil && facts.Exe != "" {
			exe = facts.Exe
		}
		refused.Why += fmt.Sprintf(", and no keep rule of the policy matches exe %q", exe)
		if why := facts.Unproven(); why != "" {
			refused.Why += ": " + why
			return h.access.Refuse(c, access.Keep, fmt.Sprintf("pid %d", id.PID), refused)
		}
		refused.Hint = fmt.Sprintf("ask an operator to add to the policy: keep: [{name: NAME, match: {exe: %q}, reason: %q, until: DATE}]", exe, req.Reason)
		return h.access.Refuse(c, access.Keep, fmt.Sprintf("pid %d", id.PID), refused)
	}
	from, err := h.kernel.Session(scope.Chain[0])
	if err != nil {
		return err
	}
	why := rules.Kept{Reason: rule.Reason, Rule: rule.Name, By: c.Document()}
	all := []tracer.Identity{id}
	info, err := h.steward.Keep(from, all, req.Name, why, rule.Until.Time())
	if err != nil {
		return keepError(id, err)
	}
	return h.reply(w, info.ID, from.ID, all, c)
}
