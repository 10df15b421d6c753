package perfetto

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/past"
	"github.com/lineage-ebpf/lineage/cmd/lineage/outfile"
	"github.com/lineage-ebpf/lineage/cmd/lineage/secrets"
)

// slack is how long before its session, or after its end, an event may be.
const slack = time.Second

// WriteHistory writes the trace of a session that is over to a file.
func WriteHistory(ctx context.Context, c api.Client, s *api.Session, file string) error {
	f, err := outfile.Open(file, nil)
	if err != nil {
		return fmt.Errorf("write timeline %s: %w", file, err)
	}
	out, err := f.Create()
	if err == nil {
		err = f.Publish(out, History(ctx, c, s, out))
	}
	if err != nil {
		return fmt.Errorf("write timeline %s: %w", file, err)
	}
	return nil
}

// History writes the trace of a session that is over, as far as the daemon remembers it.
func History(ctx context.Context, c api.Client, s *api.Session, w io.Writer) error {
	redact, err := secrets.Redactor(ctx, c)
	if err != nil {
		return err
	}
	report, err := c.Report(ctx, s.ID, 0)
	if err != nil {
		return err
	}
	t := New(w, s, redact)
	q := api.EventsQuery{Session: s.ID, Since: time.Unix(1, 0)}
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
		case ev.Type == "":
			return nil
		case ev.Type == api.EventLost && ev.Where == "history":
			dropped = ev
			return nil
		case dropped != nil && !t.opens(ev):
			t.lost(dropped)
			if err := t.before(ctx, c, dropped.Time); err != nil {
				return err
			}
		}
		dropped, empty = nil, false
		return t.Event(ev)
	})
	if err == nil && empty {
		t.Missing("history")
		err = t.before(ctx, c, nil)
	}
	if err != nil {
		return err
	}
	return t.Close(report)
}

// opens reports whether an event is the first of the session: the birth of its root, or its
// own beginning.
func (t *Trace) opens(ev *api.Event) bool {
	root := ev.Type == api.EventFork && ev.Process != nil && ev.Process.Evidence != nil && ev.Process.Evidence.Kind == "root"
	return ev.Session == t.session.ID && (root || ev.Type == api.EventSession && ev.State == api.StateActive)
}

// before adds the processes that started before the oldest event that the history has;
// nil: it has none. Only their beginning and end are known.
func (t *Trace) before(ctx context.Context, c api.Client, oldest *time.Time) error {
	tree, err := c.Tree(ctx, t.session.ID, "all")
	if err != nil {
		return err
	}
	slices.SortFunc(tree.Nodes, func(a, b api.Node) int { return past.Compare(a.Ref, b.Ref) })
	later := func(at *time.Time) bool { return oldest != nil && at != nil && !at.Before(*oldest) }
	for i := range tree.Nodes {
		p := &tree.Nodes[i].Process
		if later(p.Started) {
			continue
		}
		if later(p.Exited) {
			p.State = api.StateLive // its exit event will come
		}
		t.Process(p)
	}
	return t.err
}
