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
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

func (a *app) whyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "why PID|:PORT|PATH",
		Short: "Show which session a process, port or file belongs to",
		Long: `Show the session of a process and every step from the session's root down to
it: who created it, when, and what the creator ran then; and the ports and
locks that it holds. Creators that have exited are shown too. For a process
outside any session, show its parents, and the session that it owns.

With :PORT, show the processes that listen on the port (:53/udp for UDP); with
--at, the members that listened on the TCP port then, from the history. With
PATH, show the processes that have the file open or locked, or listen on that
unix socket. Name a file 8080 as ./8080. PID@START, which "-o name" prints, is
safe against reused PIDs.`,
		Example: `  lineage why 4130            # one process
  lineage why :8080           # what listens on TCP port 8080
  lineage why :8080 --at 2h   # what listened on it two hours ago
  lineage why /srv/app.lock   # what has the file open or locked`,
		Args:              argsCount(1, 1, "PID, :PORT or PATH"),
		ValidArgsFunction: a.completeWhy,
	}
	var at string
	cmd.Flags().StringVar(&at, "at", "", "the members that listened on the TCP port at this `TIME`: 2h ago, or RFC 3339")
	format := formatFlag(cmd)
	remote := hostFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ask, err := a.question(args[0], len(*remote) > 0)
		if err == nil && cmd.Flags().Changed("at") {
			ask, err = a.portAt(args[0], at)
		}
		if err != nil {
			return err
		}
		return a.answer(cmd.Context(), *remote, format.value, ask)
	}
	return cmd
}

var pidLike = regexp.MustCompile(`^[0-9]+(@.*)?$`)

// question turns an argument into a request. The argument is looked up on this host
// only if the daemon runs here.
func (a *app) question(arg string, remote bool) (asker, error) {
	if port, ok := strings.CutPrefix(arg, ":"); ok {
		number, proto, _ := strings.Cut(port, "/")
		n, err := strconv.ParseUint(number, 10, 16)
		if proto == "" {
			proto = "tcp"
		}
		if err != nil || n == 0 || proto != "tcp" && proto != "udp" {
			return nil, exit.Usage("why: %w", exit.Invalid(":PORT", arg, ":PORT, :PORT/tcp or :PORT/udp; a file with that name is ./"+arg))
		}
		return func(ctx context.Context, c api.Client) (*text.Listing, error) {
			h, err := c.WhyPort(ctx, proto, int(n))
			if err != nil {
				return nil, err
			}
			return text.Holders(h, fmt.Sprintf(":%d/%s", n, proto), a.ancestors(remote)), nil
		}, nil
	}
	if ref, err := api.ParseRef(arg); err == nil {
		return a.askProcess(ref, remote), nil
	}
	if pidLike.MatchString(arg) || arg == "" {
		return nil, exit.Usage("why: %w", exit.Invalid("PID", arg, "PID or PID@START"))
	}
	if remote {
		return askRemotePath(arg)
	}
	return a.askPath(arg)
}

// portAt asks which members listened on a port at a time.
func (a *app) portAt(arg, when string) (asker, error) {
	at, err := api.ParseTime(when, a.Now())
	if err != nil {
		return nil, exit.Usage("why: %w", exit.Invalid("--at", when, err.Error()))
	}
	port, isPort := strings.CutPrefix(arg, ":")
	n, err := strconv.ParseUint(strings.TrimSuffix(port, "/tcp"), 10, 16)
	if !isPort || err != nil {
		return nil, exit.Usage("why %s: --at belongs to a TCP port, as in :8080", arg)
	}
	return func(ctx context.Context, c api.Client) (*text.Listing, error) {
		h, err := c.WhyPortAt(ctx, int(n), at)
		if err != nil {
			return nil, err
		}
		return text.Holders(h, fmt.Sprintf(":%d/tcp", n), nil), nil
	}, nil
}

// ancestors reads parents from /proc; nil: the processes are of another host.
func (a *app) ancestors(remote bool) func(pid int) []api.Process {
	if remote {
		return nil
	}
	return a.host.ancestors
}

// askProcess asks which session a process belongs to. The daemon knows little about a
// process outside any session: its parents are read from /proc here.
func (a *app) askProcess(ref api.Ref, remote bool) asker {
	return func(ctx context.Context, c api.Client) (*text.Listing, error) {
		why, err := c.Why(ctx, ref.String())
		if err != nil {
			return nil, err
		}
		doc := &text.WhyDocument{Why: *why}
		if why.Session == nil {
			if ancestors := a.ancestors(remote); ancestors != nil {
				doc.Ancestors = ancestors(why.Process.PID)
			}
			list, err := c.Sessions(ctx, "live", "")
			if err != nil {
				return nil, err
			}
			for _, s := range list.Items {
				if s.Owner != nil && *s.Owner == why.Process.Ref {
					doc.Owns = append(doc.Owns, s)
				}
			}
		}
		return text.Why(doc), nil
	}
}

// askRemotePath asks which processes hold a file of another host: by its name only, as
// its inode is not known here.
func askRemotePath(arg string) (asker, error) {
	if !filepath.IsAbs(arg) {
		return nil, exit.Usage("why %s: with -H, want an absolute path", arg)
	}
	return func(ctx context.Context, c api.Client) (*text.Listing, error) {
		h, err := c.WhyPath(ctx, api.PathRef{Path: filepath.Clean(arg)})
		if err != nil {
			return nil, err
		}
		return text.Holders(h, arg, nil), nil
	}, nil
}

// askPath asks which processes hold a file.
func (a *app) askPath(arg string) (asker, error) {
	file, err := pathRef(arg)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c api.Client) (*text.Listing, error) {
		h, err := c.WhyPath(ctx, file)
		if notFound(err) {
			return nil, noHolder(ctx, c, arg, err)
		}
		if err != nil {
			return nil, err
		}
		return text.Holders(h, arg, a.ancestors(false)), nil
	}, nil
}

// noHolder explains why no process has the file: it may not exist, because the argument
// is the name of a session.
func noHolder(ctx context.Context, c api.Client, arg string, err error) error {
	if _, missing := os.Lstat(arg); !errors.Is(missing, os.ErrNotExist) {
		return err
	}
	if s, found := c.Session(ctx, arg); api.IsSessionWord(arg) && found == nil {
		return api.NewError(api.CodeNotFound, fmt.Sprintf("why %s: no such file", arg), fmt.Sprintf("%s is a session: lineage tree %s", arg, s.ID))
	}
	return api.NewError(api.CodeNotFound, fmt.Sprintf("why %s: no such file, and no process has one of that name open", arg), "")
}

// pathRef names a file as we see it: the daemon may see another file of that name, and
// must not touch what we may not. A file that is gone is named by its path alone.
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
		return f, exit.Errorf(api.ExitDenied, "why %s: not permitted; run with sudo", arg)
	}
	if err != nil {
		return f, nil
	}
	// The name of a unix socket is enough: no process can have its file open.
	if info.Mode()&os.ModeSocket == 0 {
		f.Device, f.Inode = fileID(info)
	}
	return f, nil
}
