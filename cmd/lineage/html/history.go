package html

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// slack is how long before its session, or after its end, an event may be.
const slack = time.Second

// Save writes the page of a session that is over to a file.
func Save(ctx context.Context, c api.Client, s *api.Session, name string) error {
	report, err := c.Report(ctx, s.ID, 0)
	if err != nil {
		return err
	}
	p, err := History(ctx, c, s)
	if err != nil {
		return err
	}
	f, err := OpenFile(name, nil)
	if err == nil {
		err = f.Write(func(w io.Writer) error { return p.Write(w, report) })
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// History is the page of a session as far as the daemon remembers it: all of it, or what happened
// until now. With an error the page has what was read before.
func History(ctx context.Context, c api.Client, s *api.Session) (*Page, error) {
	redact, err := service.Redactor(ctx, c)
	p := New(s, redact)
	if refused := (*api.Error)(nil); err != nil && (!errors.As(err,
		&refused) || refused.Code != api.CodeDenied) {
		return p, err
	}
	q := api.EventsQuery{Session: s.ID, Since: time.Unix(1, 0), Until: time.Now()}
	if s.Started != nil {
		q.Since = s.Started.Add(-slack)
	}
	if s.Ended != nil {
		q.Until = s.Ended.Add(slack)
	}
	empty := true
	var dropped *api.Event // history's note on dropped events, until it is known whether they were of this session
	err = c.Events(ctx, q, func(ev *api.Event) error {
		switch {
		case ev.Kind == "end" && ev.Reason == "stopping":
			return api.NewError(api.CodeStopping, "the daemon stops", "")
		case ev.Type == "":
			return nil
		case ev.Type == api.EventLost && ev.Where == "history":
			dropped = ev
			return nil
		case dropped != nil && !opens(s, ev):
			p.Event(dropped)
			if err := before(ctx, c, p, dropped.Time); err != nil {
				return err
			}
		}
		dropped, empty = nil, false
		p.Event(ev)
		return nil
	})
	if err == nil && empty {
		p.gap("events are missing: history")
		err = before(ctx, c, p, nil)
	}
	return p, err
}

// opens reports whether an event is the first of the session: the birth of its root, or its
// own beginning.
func opens(s *api.Session, ev *api.Event) bool {
	root := ev.Type == api.EventFork && ev.Process != nil && ev.Process.Evidence != nil &&
		ev.Process.Evidence.Kind == "root"
	return ev.Session == s.ID && (root || ev.Type == api.EventSession && ev.State == api.StateActive)
}

// before adds the processes that started before the oldest event that the history has;
// nil: it has none. Only their beginning and end are known.
func before(ctx context.Context, c api.Client, p *Page, oldest *time.Time) error {
	tree, err := c.Tree(ctx, p.session.ID, "all")
	if err != nil {
		return err
	}
	slices.SortFunc(tree.Nodes, func(a, b api.Node) int { return a.Ref.Compare(b.Ref) })
	later := func(at *time.Time) bool { return oldest != nil && at != nil && !at.Before(*oldest) }
	for i := range tree.Nodes {
		x := &tree.Nodes[i].Process
		if later(x.Started) {
			continue
		}
		if later(x.Exited) {
			x.Exited = nil // its exit event will come
		}
		p.clock.tick(uint64(x.StartNS), x.Started)
		if m := p.saw(x); m != nil {
			p.clock.tick(m.end(), x.Exited)
		}
	}
	return nil
}
