package main

import (
	"context"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/console"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// redraw is the least time between two drawings of a followed tree.
const redraw = 200 * time.Millisecond

// followTree draws the trees that arg names whenever an event says that they changed,
// until the session is over or the user interrupts. On a terminal a drawing replaces
// the previous one; elsewhere it follows it.
func (a *app) followTree(ctx context.Context, c api.Client, o treeOptions, arg, format string) error {
	ctx, stop := a.UntilInterrupt(ctx)
	defer stop()
	trees, err := askTrees(ctx, c, arg, o.all)
	if err != nil {
		return err
	}
	var q api.EventsQuery
	if arg != "" {
		q.Session = trees[0].Session.ID
	}
	if o.plain {
		return a.linearTree(ctx, c, o, arg, format, q)
	}
	changed := make(chan struct{}, 1)
	over := make(chan error, 1)
	go func() {
		over <- c.Events(ctx, q, func(*api.Event) error {
			select {
			case changed <- struct{}{}:
			default: // a drawing is due already
			}
			return nil
		})
	}()
	screen := a.Screen(format == "wide")
	for {
		if err := screen.Draw(text.Trees(trees, false, o.plain).Text); err != nil {
			return err
		}
		select {
		case <-changed:
		case err := <-over:
			return a.lastTree(ctx, c, screen, o, arg, err)
		}
		select {
		case <-time.After(redraw):
		case <-ctx.Done():
		}
		if trees, err = askTrees(ctx, c, arg, o.all); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lastTree draws once more when the stream has ended, and reports why, unless the
// session ended or the user interrupted.
func (a *app) lastTree(ctx context.Context, c api.Client, s *console.Screen, o treeOptions, arg string, why error) error {
	if ctx.Err() != nil {
		return nil
	}
	if why != nil {
		return why
	}
	trees, err := askTrees(ctx, c, arg, o.all)
	if notFound(err) {
		return nil // the process is gone with the session
	}
	if err != nil {
		return err
	}
	return s.Draw(text.Trees(trees, false, o.plain).Text)
}

// linearTree draws the trees once and then writes a line for each change: a screen
// reader or a pipe gets nothing twice, and no cursor moves. The stream is opened before
// the drawing, so that no event between them is lost.
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
	p := a.Page(a.Stdout, format == "wide")
	text.WriteTrees(p, trees, true)
	if err := p.Flush(); err != nil {
		return err
	}
	for {
		select {
		case ev := <-events:
			p.Now = a.Now()
			if err := a.writeEvent(p, nil, format, ev); err != nil {
				return err
			}
			if err := p.Flush(); err != nil {
				return err
			}
		case err := <-over:
			if ctx.Err() != nil {
				return nil // the user interrupted
			}
			return err
		}
	}
}
