package main

import (
	"context"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// linearTree draws the trees once and then writes a line for each change: a
// screen reader, or who pipes it, gets nothing twice, and no cursor moves. The
// stream begins before the drawing, so that nothing is lost between them.
func (a *app) linearTree(ctx context.Context, c api.Client, o treeOptions, arg, format string, q api.EventsQuery) error {
	events, over := make(chan *api.Event), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		over <- c.Events(ctx, q, func(ev *api.Event) error {
			select {
			case events <- ev:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	trees, err := askTrees(ctx, c, arg, o.all)
	if err != nil {
		return err
	}
	p := a.page(a.stdout, format == "wide")
	text.WriteTrees(p, trees, true)
	if err := p.Flush(); err != nil {
		return err
	}
	for {
		select {
		case ev := <-events:
			p.Now = a.now()
			if err := a.writeEvent(p, nil, format, ev); err != nil {
				return err
			}
			if err := p.Flush(); err != nil {
				return err
			}
		case err := <-over:
			if ctx.Err() != nil {
				return nil // the caller has seen enough
			}
			return err
		}
	}
}
