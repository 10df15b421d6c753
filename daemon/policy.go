//go:build linux

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/instance"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

// reloadOn reads the policy again at each signal.
func (s *server) reloadOn(ctx context.Context, hup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			s.manager.Notify(instance.Reloading()...)
			_ = s.steward.Reload() // it is logged, and stands in the status
			s.manager.Notify(instance.Ready)
		}
	}
}

// getPolicy is not for members: what their host lets end is not theirs to know.
func (s *server) getPolicy(w http.ResponseWriter, _ *http.Request, _ access.Caller, _ url.Values) error {
	return reply(w, http.StatusOK, s.rules.Document())
}

func (s *server) postReload(w http.ResponseWriter, _ *http.Request, c access.Caller, _ *struct{}) error {
	if err := s.steward.Reload(); err != nil {
		return api.NewError(api.CodeBadRequest, err.Error(), "")
	}
	s.access.Managed(c, "policy reload")
	return reply(w, http.StatusOK, s.rules.Document())
}

func (s *server) postResume(w http.ResponseWriter, _ *http.Request, c access.Caller, _ *struct{}) error {
	if s.rules.Resume() {
		s.steward.Reterm()
		s.log.Warn().Str(logging.KeyVerb, access.Manage.String()).Uint32(logging.KeyUID, c.UID).Uint32(logging.KeyPID, c.ID.PID).
			Msg("circuit breaker closed")
	}
	s.access.Managed(c, "policy resume")
	return reply(w, http.StatusOK, s.rules.Document())
}

// getExplain tells which rules match a process now.
func (s *server) getExplain(w http.ResponseWriter, _ *http.Request, c access.Caller, q url.Values) error {
	id, live, err := s.find.Identity(q.Get("ref"), c)
	if err != nil {
		return err
	}
	p, err := s.find.Process(id, live, c)
	if err != nil {
		return err
	}
	d := api.PolicyExplain{Head: api.NewHead("policy_explain"), Process: *p, Items: []api.PolicyRule{}}
	if !live {
		return reply(w, http.StatusOK, d) // rules are about the living
	}
	facts := s.steward.Facts(id.PID, rules.MaxFacts)
	if now, err := s.kernel.Identify(id.PID); errors.Is(err, tracer.ErrNotFound) || err == nil && now != id {
		return lookup.OtherProcess(p.Ref)
	} else if err != nil {
		return err
	}
	effect := "never adopted, and never signalled on evidence weaker than a fork"
	if p.Session != "" {
		effect = "nothing: its own session is not kept from ending it"
	}
	in := s.rules.Policy()
	for _, rule := range in.Protected(facts) {
		d.Items = append(d.Items, api.PolicyRule{
			Kind: "policy_rule", Rule: rule.Key, Reason: rule.Reason, Origin: rule.Origin, Effect: effect,
		})
	}
	facts = s.steward.RootFacts(id) // as agent and keep rules see it: with the creator, not the parent
	if r := rules.RanAs(in, facts); r != nil {
		effect, err := s.agentEffect(in, r, id)
		if err != nil {
			return err
		}
		d.Items = append(d.Items, api.PolicyRule{Kind: "policy_rule", Rule: "agents." + r.Name, Origin: in.Origin(r), Effect: effect})
	}
	if r := in.Keeps(facts, time.Now()); r != nil {
		effect := "nothing: it is in no session"
		if p.Session != "" {
			effect = "it is handed over to a kept session until " + r.Until.String()
		}
		d.Items = append(d.Items, api.PolicyRule{
			Kind: "policy_rule", Rule: "keep." + r.Name, Reason: r.Reason, Origin: in.Origin(r), Effect: effect,
		})
	}
	return reply(w, http.StatusOK, d)
}

// agentEffect says what an agent rule does, or did, with a process that it
// matches.
func (s *server) agentEffect(p *policy.Policy, r *policy.Agent, id tracer.Identity) (string, error) {
	in, err := s.sessionWith(id)
	if err != nil {
		return "", err
	}
	does := "it opens a session"
	switch ruled := in.Rule != 0 && in.Name == r.Name; {
	case ruled && in.Root == id:
		does = fmt.Sprintf("it opened session %v by this rule", in.ID)
	case ruled && !r.Nests():
		return fmt.Sprintf("nothing: it is in session %v, which this rule opened for pid %d", in.ID, in.Root.PID), nil
	case in.ID != 0 && !r.Nests():
		return fmt.Sprintf("nothing: it is in session %v, and the rule is for processes outside", in.ID), nil
	}
	return does + s.termsText(p.Terms(r)), nil
}

// sessionWith is the session that a process is in, zero if it is in none.
func (s *server) sessionWith(id tracer.Identity) (in tracer.SessionInfo, err error) {
	err = s.registry.Read(func(v registry.View) {
		if n, ok := v.Graph().Node(id); ok {
			if x := v.Session(n.Session); x != nil {
				in = x.Info()
			}
		}
	})
	return in, err
}

// termsText is what a rule's session is held to.
func (s *server) termsText(t policy.Terms) string {
	text := fmt.Sprintf(", grace %v", t.Grace)
	for _, limit := range []struct {
		name string
		set  bool
		v    any
	}{
		{"max_lifetime", t.MaxLifetime > 0, t.MaxLifetime}, {"max_processes", t.MaxProcesses > 0, t.MaxProcesses},
		{"max_rss", t.MaxRSS > 0, policy.Size(t.MaxRSS)}, {"idle", t.Idle > 0, t.Idle},
	} {
		if limit.set {
			text += fmt.Sprintf(", %s %v", limit.name, limit.v)
		}
	}
	if t.Report {
		text += ", leftovers are only reported"
	}
	if !s.rules.Enforced() {
		text += "; observed: nothing is ended, it is recorded what would be"
	}
	return text
}
