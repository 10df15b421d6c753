package main

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether the daemon runs, and whether all is well",
		Long: `Show the daemon's version, guarantee level and mode, how many sessions are live,
and what does not work as it should. Exits with 0 if all is well, with 1 if the
daemon is degraded, and with 5 if none answers.`,
		Example: `  lineage status
  lineage status -o json | jq '.status.degraded[]?'
  lineage status -H web1,web2`,
	}
	format := formatFlag(cmd, text.Documents...)
	remote := a.hostFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var degraded atomic.Bool
		err := a.answer(cmd.Context(), *remote, format.Value, func(ctx context.Context, c api.Client) (*text.Listing, error) {
			v, err := c.Version(ctx)
			if err != nil {
				return nil, err
			}
			st, err := c.Status(ctx)
			if err != nil {
				return nil, err
			}
			if len(st.Degraded) > 0 {
				degraded.Store(true)
			}
			return text.Daemon(v, st), nil
		})
		if _, away := errors.AsType[*api.UnreachableError](err); away && len(*remote) == 0 {
			if h := a.host.halted(a.socketPath()); h != nil {
				a.Say("%s", display.HaltLine(h))
			}
		}
		if err == nil && degraded.Load() {
			return cli.Silent(api.ExitFailed)
		}
		return err
	}
	return cmd
}

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this host's kernel supports",
		Long: `Load the daemon's programs, try the features of the kernel and writes to the
daemon's directories, and leave nothing behind. Exits with 0 if sessions can be
tracked here, else with 7. "no" marks what is missing; only "sessions cannot be
tracked" in the first line means that lineage does not work. If a daemon
answers, its last self-check, its capabilities and its problems are shown too.`,
		Example: `  sudo lineage doctor
  sudo lineage doctor --json | jq .level`,
	}
	format := formatFlag(cmd, text.Documents...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d := a.host.doctor(a.socketPath())
		answered := false
		a.briefly(cmd, doctorPatience, func(ctx context.Context, c api.Client) {
			if st, err := c.Status(ctx); err == nil {
				answered = true
				d.SelfCheck, d.Capabilities, d.Degraded, d.Halt = st.SelfCheck, st.Capabilities, st.Degraded, st.Halt
			}
		})
		if !answered {
			d.Halt = a.host.halted(a.socketPath())
		}
		if err := a.Print(format.Value, text.Doctor(d)); err != nil {
			return err
		}
		if !d.Supported {
			return cli.Silent(api.ExitUnsupported)
		}
		return nil
	}
	return cmd
}

// doctorPatience is how long a daemon has to answer.
const doctorPatience = 2 * time.Second

// Both are set by the linker; commit ends with + if there were changes.
var version, commit = "devel", ""

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this command and of the daemon",
		Long: `Print the version of this command, the commit that it was built from (+: with
changes), and the SHA-256 of the BPF objects in it; and the version of the
daemon. Commands and a daemon with the same api number work together. A daemon
that replaces one with another abi takes its sessions over.`,
		Example: `  lineage version
  lineage version -o name      # only this command's`,
	}
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		doc := text.VersionDocument{
			Head:    api.NewHead("version"),
			Version: a.host.version,
			Commit:  a.host.commit,
			Go:      runtime.Version(),
			API:     api.Major,
			ABI:     a.host.abi(),
			Objects: a.host.objects(),
		}
		daemonErr := a.with(cmd.Context(), func(c api.Client) (err error) {
			doc.Daemon, err = c.Version(cmd.Context())
			return err
		})
		return a.Print(format.Value, text.Version(&doc, a.socketPath(), daemonErr))
	}
	return cmd
}
