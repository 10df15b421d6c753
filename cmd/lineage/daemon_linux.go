package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/daemon/status"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer"
)

// daemonCommand is the command line of the daemon; serve and unload do the
// work.
func (a *app) daemonCommand(
	serve func(context.Context, daemon.Options) error,
	unload func(ctx context.Context, socket string, force bool) error,
) *cobra.Command {
	o := daemon.Options{Version: a.host.version, Canary: []string{"/proc/self/exe", status.CanaryArg}}
	mode := fileMode(0o666)
	var takeDown, force bool
	cmd := &cobra.Command{
		Use:   "daemon",
		Short: "Serve this host's sessions on a unix socket",
		Long: `Serve this host's sessions. When the daemon stops, sessions and the kernel side
stay as they are, and the next daemon continues with them; --unload removes
everything from the kernel instead.`,
		Example: `  sudo lineage daemon
  sudo lineage daemon --policy ./policy.yaml --socket /tmp/test.sock
  sudo lineage daemon --unload`,
		Args:              cli.Args(0, 0, "the time of --ephemeral is written --ephemeral=TIME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Socket, o.SocketMode = a.socketPath(), os.FileMode(mode)
			switch {
			case force && !takeDown:
				return cli.Usage("daemon: --force belongs to --unload")
			case o.Level < 0 || o.Level >= len(text.Levels):
				return cli.Usage("daemon: %w", cli.Invalid("--level", o.Level,
					fmt.Sprintf("0 to %d", len(text.Levels)-1)))
			case cmd.Flags().Changed("ephemeral") && o.Ephemeral <= 0:
				return cli.Usage("daemon: %w", cli.Invalid("--ephemeral", o.Ephemeral, "more than 0"))
			case takeDown:
				return refused(unload(cmd.Context(), o.Socket, force))
			}
			ctx, stop := a.UntilInterrupt(cmd.Context())
			defer stop()
			return refused(serve(ctx, o))
		},
	}
	f := cmd.Flags()
	f.Var(&mode, "socket-mode", "the socket's `MODE`; the caller of every request is checked in any case")
	f.StringVar(&o.SocketGroup, "socket-group", "", "the `GROUP` that owns the socket (default root's)")
	f.IntVar(&o.Level, "level", 0, "maximum guarantee `LEVEL` (default the policy's, else the best)")
	f.StringVar(&o.Policy, "policy", "", "read the policy from `FILE` (default "+
		policy.DefaultFile+" if it exists, with the default socket only)")
	f.DurationVar(&o.Ephemeral, "ephemeral", 0,
		"exit this `TIME` after the last session and the last client (10m if no time is given)")
	f.Lookup("ephemeral").NoOptDefVal = "10m"
	f.BoolVar(&takeDown, "unload", false, "stop the daemon and remove everything from the kernel; refused if a session is live")
	f.BoolVar(&force, "force", false, "unload in spite of live sessions: their processes keep running, untracked")
	return cmd
}

// refused adds exit codes to errors of the host.
func refused(err error) error {
	switch {
	case errors.Is(err, tracer.ErrNotRoot), errors.Is(err, daemon.ErrMember):
		return cli.Errorf(api.ExitDenied, "daemon: %w", err)
	case errors.Is(err, tracer.ErrUnsupported), errors.Is(err, syscall.EROFS): // of the bpffs, or of the socket's directory
		return cli.Errorf(api.ExitUnsupported, "daemon: %w", err)
	}
	return err
}

// fileMode is a flag that takes permissions in octal.
type fileMode os.FileMode

func (m *fileMode) String() string { return fmt.Sprintf("%#o", uint32(*m)) }
func (m *fileMode) Type() string   { return "mode" }

func (m *fileMode) Set(s string) error {
	v, err := strconv.ParseUint(s, 8, 32)
	if err != nil || v > 0o777 {
		return errors.New("permissions in octal, such as 0660")
	}
	*m = fileMode(v)
	return nil
}
