package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hook"
	"github.com/lineage-ebpf/lineage/cmd/lineage/setup"
	"github.com/lineage-ebpf/lineage/cmd/lineage/silence"
)

func (a *app) hookCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hook AGENT",
		Short: "What a coding agent's hooks run; see setup",
		Long: `Read one event of a coding agent from stdin, as JSON. The agent becomes the root
of a session, unless it is in one: when it starts, or at a later event if no
daemon answered then. The beginning and the end of a tool call are marked:
processes that the agent starts in between have the call in tree, why and
history, marked as claimed. When a turn is over, the answer on stdout names the
processes that still listen on a port, in the agent's format.

AGENT is a name that setup knows, or the name of another agent's program. Only a
process that runs that program becomes a root: called by hand in a terminal,
this opens no session.

The exit code is always 0: an agent does not fail because of lineage. It waits
up to 2 s for a daemon when it starts, later 0.2 s, and not at all if nothing
listens on the socket. Without a daemon, the agent says so once.`,
		Example: `  lineage hook claude-code < event.json`,
		Args:    argsCount(1, 1, "AGENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			agent, _ := setup.Find(args[0])
			h := hook.Hook{
				Agent: agent, In: a.Stdin, Out: a.Stdout, PID: os.Getpid(), Ancestors: a.host.ancestors,
				Dial: func(ctx context.Context) (api.Client, error) { return a.dial(ctx, a.socketPath()) },
				Look: func() silence.Listener { return silence.Look(a.socketPath()) },
				Note: silence.NewNote(a.Env, "lineage-hook-unreachable"),
			}
			h.Run(cmd.Context())
			return nil
		},
	}
}
