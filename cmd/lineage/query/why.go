package query

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

var pidLike = regexp.MustCompile(`^[0-9]+(@.*)?$`)

// Why asks about a process, a port or a file.
type Why struct {
	Remote bool // the daemon is of another host: files are named, not looked up
	// Ancestors are the parents of a process as the kernel of this host has them now; nil: not known.
	Ancestors func(pid int) []api.Process
}

// Of turns an argument, PID, :PORT or PATH, into a request.
func (w Why) Of(arg string) (Asker, error) {
	if strings.HasPrefix(arg, ":") {
		proto, n, err := api.ParsePort(arg)
		if err != nil {
			return nil, cli.Usage("why: %w; a file with that name is ./%s", err, arg)
		}
		return holders(fmt.Sprintf(":%d/%s", n, proto), w.Ancestors, func(ctx context.Context, c api.Client) (*api.Holders, error) {
			return c.WhyPort(ctx, proto, n)
		}), nil
	}
	if ref, err := api.ParseRef(arg); err == nil {
		return w.process(ref), nil
	}
	if pidLike.MatchString(arg) || arg == "" {
		return nil, cli.Usage("why: %w", cli.Invalid("PID", arg, "PID or PID@START"))
	}
	return w.path(arg)
}

func holders(what string, ancestors func(pid int) []api.Process,
	ask func(context.Context, api.Client) (*api.Holders, error)) Asker {
	return func(ctx context.Context, c api.Client) (*text.Listing, error) {
		h, err := ask(ctx, c)
		if err != nil {
			return nil, err
		}
		return text.Holders(h, what, ancestors), nil
	}
}

// process asks which session a process belongs to. The daemon knows little about a
// process outside any session: its parents are read from /proc here.
func (w Why) process(ref api.Ref) Asker {
	return func(ctx context.Context, c api.Client) (*text.Listing, error) {
		why, err := c.Why(ctx, ref.String())
		if err != nil {
			return nil, err
		}
		doc := &text.WhyDocument{Why: *why}
		if why.Session == nil {
			if w.Ancestors != nil && why.Process.State != api.StateExited {
				doc.Ancestors = w.Ancestors(why.Process.PID)
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

// path asks which processes hold a file: of another host by its name only, as its inode is not known here.
func (w Why) path(arg string) (Asker, error) {
	file, err := api.PathRef{Path: filepath.Clean(arg)}, error(nil)
	switch {
	case !w.Remote:
		file, err = pathRef(arg)
	case !filepath.IsAbs(arg):
		err = cli.Usage("why %s: with -H, want an absolute path", arg)
	}
	if err != nil {
		return nil, err
	}
	return holders(arg, w.Ancestors, func(ctx context.Context, c api.Client) (*api.Holders, error) {
		h, err := c.WhyPath(ctx, file)
		if !w.Remote && api.IsNotFound(err) {
			err = noHolder(ctx, c, arg, err)
		}
		return h, err
	}), nil
}

// noHolder explains why no process has the file: it may not exist, because the argument
// is the name of a session.
func noHolder(ctx context.Context, c api.Client, arg string, err error) error {
	if _, missing := os.Lstat(arg); !errors.Is(missing, os.ErrNotExist) {
		return err
	}
	if s, found := c.Session(ctx, arg); api.IsSessionWord(arg) && found == nil {
		return api.NewError(api.CodeNotFound, fmt.Sprintf("why %s: no such file", arg),
			fmt.Sprintf("%s is a session: lineage tree %s", arg, s.ID))
	}
	return api.Errorf(api.CodeNotFound, "why %s: no such file, and no process has one of that name open", arg)
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
		return f, cli.Errorf(api.ExitDenied, "why %s: not permitted; run with sudo", arg)
	}
	if err != nil {
		return f, nil
	}
	// The name of a unix socket is enough: no process can have its file open.
	if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode()&os.ModeSocket == 0 {
		f.Device, f.Inode = st.Dev, st.Ino
	}
	return f, nil
}
