package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hook"
)

func (a *app) hookCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hook AGENT",
		Short: "What a coding agent's hooks run; see setup",
		Long: `Read one event of a coding agent from stdin, as JSON. When the agent starts, it
becomes the root of a session, unless it is in one. The beginning and the end of
a tool call are marked: processes that the agent starts in between have the call
in tree, why and history, marked as claimed. When a turn is over, the answer on
stdout names the processes that still listen on a port, in the agent's format.

The exit code is always 0, and it never takes longer than a quarter of a
second: an agent does not fail because of lineage. If no daemon answers, the
agent says so once, until a daemon answers again.`,
		Example: `  lineage hook claude-code < event.json`,
		Args:    argsCount(1, 1, "AGENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			h := hook.Hook{
				Agent: args[0], In: a.Stdin, Out: a.Stdout, Env: a.Env, PID: os.Getpid(), Ancestors: a.host.ancestors,
				Dial: func(ctx context.Context) (api.Client, error) { return a.dial(ctx, a.socketPath()) },
			}
			h.Run(cmd.Context())
			return nil
		},
	}
}
