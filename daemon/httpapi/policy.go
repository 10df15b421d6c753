//go:build linux

package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

// getPolicy is not for members: they may not know what their host's policy ends.
func (h *host) getPolicy(w http.ResponseWriter, _ *http.Request, _ access.Caller, _ url.Values) error {
	return reply(w, http.StatusOK, h.Rules.Document())
}

func (h *host) postReload(w http.ResponseWriter, _ *http.Request, c access.Caller, _ *struct{}) error {
	if err := h.Steward.Reload(); err != nil {
		return api.NewError(api.CodeBadRequest, err.Error(), "")
	}
	h.Access.Did(c, access.Manage, "policy reload")
	return reply(w, http.StatusOK, h.Rules.Document())
}

func (h *host) postResume(w http.ResponseWriter, _ *http.Request, c access.Caller, _ *struct{}) error {
	if h.Rules.Resume() {
		h.Steward.Reterm()
		h.Log.Warn().Str(system.KeyVerb, access.Manage.String()).EmbedObject(c).Msg("circuit breaker closed")
	}
	h.Access.Did(c, access.Manage, "policy resume")
	return reply(w, http.StatusOK, h.Rules.Document())
}

func (h *host) getExplain(w http.ResponseWriter, _ *http.Request, c access.Caller, q url.Values) error {
	id, live, err := h.Find.Identity(q.Get("ref"), c)
	if err != nil {
		return err
	}
	p, err := h.Find.Process(id, live, c)
	if err != nil {
		return err
	}
	d := api.PolicyExplain{Head: api.NewHead("policy_explain"),
		Process: *p, Items: []api.PolicyRule{}}
	if !live {
		return reply(w, http.StatusOK, d) // rules apply only to live processes
	}
	facts := h.Steward.Facts(id.PID, rules.MaxFacts)
	now, err := h.Kernel.Identify(id.PID)
	if errors.Is(err, tracer.ErrNotFound) || err == nil && now != id {
		return lookup.OtherProcess(p.Ref)
	} else if err != nil {
		return err
	}
	effect := "protected: never adopted, and never signalled on evidence weaker than a fork"
	if p.Session != "" {
		effect = "no effect: the end of its own session reaches it"
	}
	add := func(rule, reason, origin, effect string) {
		d.Items = append(d.Items, api.PolicyRule{Kind: "policy_rule", Rule: rule,
			Reason: reason, Origin: origin, Effect: effect})
	}
	in := h.Rules.Policy()
	for _, rule := range in.Protected(facts) {
		add(rule.Key, rule.Reason, rule.Origin, effect)
	}
	facts = h.Steward.RootFacts(id) // as agent and keep rules see it: with the creator, not the parent
	if r := rules.RanAs(in, facts); r != nil {
		effect, err := h.agentEffect(in, r, id, p.UID)
		if err != nil {
			return err
		}
		add("agents."+r.Name, "", in.Origin(r), effect)
	}
	r, err := h.Steward.ContainerRule(in, id.PID)
	if err != nil {
		add("containers", "", "", "no effect: its container cannot be read: "+err.Error())
	}
	if r != nil {
		effect, err := h.containerEffect(in, r, id, p.UID)
		if err != nil {
			return err
		}
		add("containers."+r.Name, "", in.Origin(r), effect)
	}
	if r := in.Keeps(facts, time.Now()); r != nil {
		effect := "no effect: not in a session"
		if p.Session != "" {
			effect = "moved to a kept session until " + r.Until.String()
		}
		add("keep."+r.Name, r.Reason, in.Origin(r), effect)
	}
	return reply(w, http.StatusOK, d)
}

func (h *host) containerEffect(p *policy.Policy, r *policy.Container,
	id tracer.Identity, uid *int) (string, error) {
	in, err := h.sessionWith(id)
	if err != nil {
		return "", err
	}
	switch ruled := in.Rule == policy.ContainerRule && in.Name == r.Name; {
	case !r.Opens():
		return "opens no session: session off", nil
	case ruled && in.Root == id:
		return fmt.Sprintf("opened session %v", in.ID) +
			h.termsOf(p, policy.ContainerRule, in.Name, uid), nil
	case ruled:
		return fmt.Sprintf("in session %v, which this rule opened for pid %d", in.ID, in.Root.PID), nil
	case in.Joined && in.Rule == 0 && in.Root == id && r.Brief > 0:
		return fmt.Sprintf("opens a session once it has run for %v, or has left something", r.Brief), nil
	}
	if r.Whole() {
		return "no effect: in another session, or not started by the container's main process", nil
	}
	return "no effect: not put into the container from outside since the rule is in force, or in another session", nil
}

// agentEffect describes what an agent rule does, or did, with a process that it
// matches.
func (h *host) agentEffect(p *policy.Policy, r *policy.Agent, id tracer.Identity, uid *int) (string, error) {
	in, err := h.sessionWith(id)
	if err != nil {
		return "", err
	}
	does := "opens a session"
	switch ruled := in.Rule == policy.AgentRule && in.Name == r.Name; {
	case ruled && in.Root == id:
		does = fmt.Sprintf("opened session %v", in.ID)
	case ruled && !r.Nests():
		return fmt.Sprintf("in session %v, which this rule opened for pid %d", in.ID, in.Root.PID), nil
	case in.ID != 0 && !r.Nests():
		return fmt.Sprintf("no effect: already in session %v, and the rule is for processes outside any",
			in.ID), nil
	}
	return does + h.termsOf(p, policy.AgentRule, r.Name, uid), nil
}

func (h *host) termsOf(p *policy.Policy, list uint32, rule string, uid *int) string {
	text := termsText(p.Terms(p.Opener(list, rule)))
	if uid == nil || !h.Rules.Enforced(uint32(*uid)) {
		return text + "; mode observe: ends are only logged, and no limits of a cgroup hold"
	}
	held := h.Rules.HeldText(tracer.SessionInfo{Rule: list, Name: rule, UID: uint32(*uid)})
	if held != "" {
		text += ", " + held
	}
	return text
}

// sessionWith is the session that a process is in, zero if it is in none.
func (h *host) sessionWith(id tracer.Identity) (tracer.SessionInfo, error) {
	return registry.Ask(h.Registry, func(v registry.View) tracer.SessionInfo {
		n, _ := v.Graph().Node(id)
		return v.Session(n.Session).Info()
	})
}

func termsText(t policy.Terms) string {
	text := fmt.Sprintf(", grace %v", t.Grace)
	say := func(when bool, format string, of ...any) {
		if when {
			text += fmt.Sprintf(format, of...)
		}
	}
	say(t.MaxLifetime > 0, ", max_lifetime %v", t.MaxLifetime)
	say(t.MaxProcesses > 0, ", max_processes %d", t.MaxProcesses)
	say(t.MaxRSS > 0, ", max_rss %v", policy.Size(t.MaxRSS))
	say(t.Idle > 0, ", idle %v", t.Idle)
	say(t.Report, ", leftovers are only reported")
	say(t.Guarded, ", signals session")
	say(t.Spared, ", spare root")
	return text
}
