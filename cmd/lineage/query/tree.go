package query

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/ending"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

var (
	exactRef = regexp.MustCompile(`^[0-9]+@[0-9]+$`)
	digits   = regexp.MustCompile(`^[0-9]+$`)
)

// Trees asks the daemon for what arg names: all live sessions, one session, or what
// one process started.
func Trees(ctx context.Context, c api.Client, arg string, all bool, where ending.Where) ([]api.Tree, error) {
	dead := "ancestors"
	if all {
		dead = "all"
	}
	if arg == "" {
		return LiveTrees(ctx, c, dead, where)
	}
	if !exactRef.MatchString(arg) {
		t, err := c.Tree(ctx, arg, dead)
		if err == nil {
			return []api.Tree{*t}, nil
		}
		if !NotFound(err) || !digits.MatchString(arg) {
			return nil, err
		}
	}
	p, err := c.Process(ctx, arg)
	if err != nil {
		return nil, err
	}
	if p.Session == "" {
		return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %s belongs to no session", arg), "")
	}
	t, err := c.Tree(ctx, p.Session, dead)
	if err != nil {
		return nil, err
	}
	sub, ok := text.Subtree(t, p.Ref)
	if !ok {
		return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %s is gone", p.Ref), "see it with --all")
	}
	return []api.Tree{*sub}, nil
}

// LiveTrees asks for the trees of all live sessions; dead: which exited processes are in them.
func LiveTrees(ctx context.Context, c api.Client, dead string, where ending.Where) ([]api.Tree, error) {
	list, err := c.Sessions(ctx, "live", "")
	if err != nil {
		return nil, err
	}
	trees := []api.Tree{}
	for _, s := range list.Items {
		if !where.Holds(s.Container) {
			continue
		}
		t, err := c.Tree(ctx, s.ID, dead)
		if NotFound(err) {
			continue // it ended since it was listed
		}
		if err != nil {
			return nil, err
		}
		trees = append(trees, *t)
	}
	return trees, nil
}

// NotFound reports whether the daemon knows nothing of that name.
func NotFound(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && e.Code == api.CodeNotFound
}
