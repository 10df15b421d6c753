package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hook"
)

func (a *app) setupCommand() *cobra.Command {
	var printed, undo, yes bool
	var names []string
	for _, agent := range hook.Agents {
		names = append(names, agent.Name)
	}
	cmd := &cobra.Command{
		Use:   "setup AGENT",
		Short: "Have a coding agent call lineage, by hooks in its configuration",
		Long: `Add hooks to the user's configuration of AGENT, one of
` + strings.Join(names, ", ") + `. The hooks run "lineage hook
AGENT": it makes a session of the agent when it starts, marks the beginning and
the end of each tool call, and after each turn the agent shows which of its
processes still listen on a port. Run it again after an upgrade: it adds new
hooks.

The change is shown first. Nothing else in the file changes: comments and order
stay. A file that is invalid, a link, or another user's is left alone; what
--print shows can be given to patch(1). The names of the commands, such as
claude, are accepted too.`,
		Example: `  lineage setup claude-code
  lineage setup codex --print
  lineage setup claude-code --undo`,
		Args:      cli.Args(1, 1, "AGENT"),
		ValidArgs: names,
	}
	f := cmd.Flags()
	f.BoolVar(&printed, "print", false, "show the change, and write nothing")
	f.BoolVar(&undo, "undo", false, "remove the hooks")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		agent, known := hook.Find(args[0])
		if !known {
			return cli.Usage("setup: %w", cli.Invalid("AGENT", args[0], "one of "+strings.Join(names, ", ")))
		}
		if uid := a.Env("SUDO_UID"); a.host.euid() == 0 && uid != "" && uid != "0" {
			return cli.Usage("setup: the hooks are a user's: run it without sudo")
		}
		home, err := os.UserHomeDir()
		if err != nil {
			return fmt.Errorf("setup: %w", err)
		}
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("setup: %w", err)
		}
		c, err := agent.Plan(home, a.Env, program, undo, printed)
		if err != nil {
			return fmt.Errorf("setup: left alone: %w", err)
		}
		if c.Empty() {
			a.Say("%s: nothing to change%s", c.Path, c.Next)
			return nil
		}
		for line := range strings.Lines(c.Diff()) {
			words := strings.Split(strings.TrimSuffix(line, "\n"), "\t") // of which a patch needs the tabs
			for i := range words {
				words[i] = display.Text(words[i])
			}
			fmt.Fprintln(a.Stdout, strings.Join(words, "\t"))
		}
		if printed {
			return nil
		}
		if _, asks := cli.Terminal(a.Stdin); !yes && !asks {
			return cli.Usage("setup: cannot ask for confirmation (not a terminal); use --yes")
		}
		if !yes && !a.Agreed("Write this?") {
			return cli.Silent(api.ExitFailed)
		}
		if err := c.Write(); err != nil {
			return fmt.Errorf("setup: left alone: %w", err)
		}
		a.Say("%s: written%s", c.Path, c.Next)
		return nil
	}
	return cmd
}

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
		Args:    cli.Args(1, 1, "AGENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			agent, _ := hook.Find(args[0])
			h := hook.Hook{
				Agent: agent, In: a.Stdin, Out: a.Stdout, PID: os.Getpid(), Ancestors: a.host.ancestors,
				Dial: func(ctx context.Context) (api.Client, error) { return a.dial(ctx, a.socketPath()) },
				Note: hook.NewNote(a.Env, "lineage-hook-unreachable"),
			}
			h.Run(cmd.Context())
			return nil
		},
	}
}
