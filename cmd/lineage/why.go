package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

func (a *app) whyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why PID|:PORT|PATH",
		Short: "Say whose a process, a port or a file is, and how that is known",
		Long: `Show every step from a process to its session's root: who created it, when,
what the creator ran then, and what became of it; and the ports and locks that
it holds. PID@START, as "-o name" prints it, is safe against a PID that was
used again.

:PORT is whoever listens on it (:53/udp for UDP). PATH is whoever has that file
open or locked, or listens on that unix socket; a file whose name is a number
is named as ./NUMBER.`,
		Args: argsCount(1, 1, "PID, :PORT or PATH"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ask, err := question(args[0])
		if err != nil {
			return err
		}
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		l, err := ask(cmd.Context(), c)
		if err != nil {
			return err
		}
		return a.print(format.value, l)
	}
	return cmd
}

var pidLike = regexp.MustCompile(`^[0-9]+(@.*)?$`)

// question makes of an argument what to ask the daemon.
func question(arg string) (func(context.Context, api.Client) (text.Listing, error), error) {
	if port, ok := strings.CutPrefix(arg, ":"); ok {
		number, proto, _ := strings.Cut(port, "/")
		n, err := strconv.ParseUint(number, 10, 16)
		if proto == "" {
			proto = "tcp"
		}
		if err != nil || n == 0 || proto != "tcp" && proto != "udp" {
			return nil, usage("why %s: want :PORT, :PORT/tcp or :PORT/udp; a file of that name is ./%s", arg, arg)
		}
		return func(ctx context.Context, c api.Client) (text.Listing, error) {
			h, err := c.WhyPort(ctx, proto, int(n))
			if err != nil {
				return text.Listing{}, err
			}
			return text.Holders(h), nil
		}, nil
	}
	if ref, err := api.ParseRef(arg); err == nil {
		return func(ctx context.Context, c api.Client) (text.Listing, error) {
			why, err := c.Why(ctx, ref.String())
			if err != nil {
				return text.Listing{}, err
			}
			return text.Why(why), nil
		}, nil
	}
	if pidLike.MatchString(arg) || arg == "" {
		return nil, usage("why %s: not a process; name it as PID or PID@START", arg)
	}
	file, err := pathRef(arg)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c api.Client) (text.Listing, error) {
		h, err := c.WhyPath(ctx, file)
		if err != nil {
			return text.Listing{}, err
		}
		return text.Holders(h), nil
	}, nil
}

// pathRef names a file as we see it: the daemon may see another one of that
// name, and is not to touch what we may not. One that is gone has its name.
func pathRef(arg string) (api.PathRef, error) {
	path, err := filepath.Abs(arg)
	if err != nil {
		return api.PathRef{}, fmt.Errorf("why %s: %w", arg, err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	f := api.PathRef{Path: path}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrPermission) {
		return f, &exitError{api.ExitDenied, fmt.Errorf("why %s: not permitted; run with sudo", arg)}
	}
	if err != nil {
		return f, nil
	}
	// The name of a unix socket says all: its file is nobody's to have open.
	if info.Mode()&os.ModeSocket == 0 {
		f.Device, f.Inode = fileID(info)
	}
	return f, nil
}
