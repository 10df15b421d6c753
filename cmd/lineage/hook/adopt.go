package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// shells run a hook's command for the agent.
var shells = []string{"sh", "bash", "dash", "zsh", "fish", "ash", "ksh"}

// An agent is the process that called us.
type agent struct {
	api.Process
	certain bool // it runs a program of the agent's
}

// agent is the nearest ancestor that runs a program of the agent's. Otherwise it is the nearest
// that is not a shell: what is reported of it is a claim and harms nobody.
func (h *Hook) agent() *agent {
	all := h.Ancestors(h.PID)
	if i := slices.IndexFunc(all, func(p api.Process) bool { return h.Agent.Runs(&p) }); i >= 0 {
		return &agent{all[i], true}
	}
	if i := slices.IndexFunc(all, func(p api.Process) bool { return !slices.Contains(shells, p.Comm) }); i >= 0 {
		return &agent{all[i], false}
	}
	return nil
}

// errStrange: in a terminal, where a user calls the hook by hand, the process above the shell is the
// terminal itself, sshd or tmux. A session of it would have everything that the user runs.
var errStrange = errors.New("no program of this agent is above its hook, so no session was opened. To open one: lineage adopt PID")

func (h *Hook) start(ctx context.Context, c api.Client, _ *event) error {
	a := h.agent()
	if a == nil {
		return nil
	}
	_, err := h.adopt(ctx, c, a)
	if err != nil && !unanswered(err) {
		h.say("lineage: " + h.Agent.Name + " is not tracked: " + display.Error(err))
	}
	return err
}

// adopt makes a session of the agent, unless it is in one. Every hook does so when it learns that
// the agent has no session: the daemon may have come later than the agent, or have been slow.
func (h *Hook) adopt(ctx context.Context, c api.Client, a *agent) (adopted bool, err error) {
	ctx, cancel := later(ctx)
	defer cancel()
	asked := a.Ref
	if !a.certain {
		asked = api.Ref{PID: h.PID}
	}
	now, err := c.Process(ctx, asked.String())
	switch {
	case err != nil || now.Session != "":
		return false, err
	case !a.certain:
		return false, errStrange
	}
	_, err = c.Create(ctx, api.NewSession{Root: now.Ref, Adopt: true,
		Name: fmt.Sprintf("%s-%d", h.Agent.Name, a.PID)})
	if is(err, api.CodeBusyName) { // another hook of this agent does so right now
		err = nil
	}
	return err == nil, err
}

// later gives more time: the daemon has answered, and this is needed once for each agent.
func later(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), startPatience)
}
