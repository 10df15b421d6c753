package query

import (
	"context"
	"fmt"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Trees asks for the trees of the selected sessions, and for a process that a word names for what it started; all:
// with every exited process.
func Trees(ctx context.Context, c api.Client, sel *api.Selection, all bool) (trees []api.Tree, err error) {
	dead := "ancestors"
	if all {
		dead = "all"
	}
	found, err := sel.Resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	trees = []api.Tree{}
	for _, x := range found.Choices {
		t, err := c.Tree(ctx, x.Session.ID, dead)
		if !x.Named && api.IsNotFound(err) {
			continue // it ended since it was listed
		}
		if err != nil {
			return nil, err
		}
		if x.Process != nil {
			sub, ok := text.Subtree(t, *x.Process)
			if !ok {
				return nil, api.NewError(api.CodeNotFound, fmt.Sprintf("pid %s is gone", x.Process), "see it with --all")
			}
			t = sub
		}
		trees = append(trees, *t)
	}
	return trees, nil
}
