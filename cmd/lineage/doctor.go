package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this host's kernel supports",
		Long: `Try every program and feature of the kernel that lineage uses, without changing
anything. Exits with 0 if sessions can be tracked here, else with 7. "no" marks
what is missing; only "sessions cannot be tracked" in the first line means that
lineage does not work. If a daemon answers, its last self-check, its
capabilities and its problems are shown too.`,
		Example: `  sudo lineage doctor
  sudo lineage doctor --json | jq .level`,
		Args:              argsCount(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := formatFlag(cmd, text.Documents...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d := a.host.doctor()
		a.briefly(cmd, doctorPatience, func(ctx context.Context, c api.Client) {
			if st, err := c.Status(ctx); err == nil {
				d.SelfCheck, d.Capabilities, d.Degraded = st.SelfCheck, st.Capabilities, st.Degraded
			}
		})
		if err := a.Print(format.value, text.Doctor(d)); err != nil {
			return err
		}
		if !d.Supported {
			return exit.Silent(api.ExitUnsupported)
		}
		return nil
	}
	return cmd
}

// doctorPatience is how long a daemon has to answer.
const doctorPatience = 2 * time.Second
