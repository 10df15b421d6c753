// Package timeline reads what happened in a session from the history, and hands it to what draws
// it in a file.
package timeline

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

// Drawing is a file that shows what happened in a session. After an error nothing more is
// written, and the error is returned again.
type Drawing interface {
	// Event adds a line of the event stream: an event, or a process of a snapshot.
	Event(ev *api.Event) error
	// Missing notes that nothing was recorded from the newest event to the next one.
	Missing(why string)
	// Usage adds what the members use now.
	Usage(s *api.Session, now time.Time) error
	// Flush writes what is buffered.
	Flush() error
	// Close ends what is still open, and adds the receipt, if there is one.
	Close(r *api.Report) error
}

// Begin begins a drawing of a session. redact hides secrets in arguments; nil leaves arguments
// out.
type Begin func(w io.Writer, s *api.Session, redact func(argv []string) []string) Drawing

// With is a Begin of a function that returns one kind of drawing.
func With[D Drawing](begin func(io.Writer, *api.Session, func([]string) []string) D) Begin {
	return func(w io.Writer, s *api.Session, redact func([]string) []string) Drawing { return begin(w, s, redact) }
}

// slack is how long before its session, or after its end, an event may be.
const slack = time.Second

// Files are the files in which a session is drawn, as flags name them.
type Files []file

type file struct {
	name  string
	begin Begin
}

// Add returns what adds a file, by its name.
func (f *Files) Add(begin Begin) func(name string) error {
	return func(name string) error {
		*f = append(*f, file{name, begin})
		return nil
	}
}

// Write draws a session that is over.
func (f Files) Write(ctx context.Context, c api.Client, s *api.Session) error {
	for _, x := range f {
		if err := write(ctx, c, s, x.name, x.begin); err != nil {
			return fmt.Errorf("write %s: %w", x.name, err)
		}
	}
	return nil
}

func write(ctx context.Context, c api.Client, s *api.Session, name string, begin Begin) error {
	f, err := outfile.Open(name, nil)
	if err != nil {
		return err
	}
	out, err := f.Create()
	if err != nil {
		return err
	}
	return f.Publish(out, history(ctx, c, s, out, begin))
}

// history draws a session that is over, as far as the daemon remembers it.
func history(ctx context.Context, c api.Client, s *api.Session, w io.Writer, begin Begin) error {
	redact, err := secrets.Redactor(ctx, c)
	if err != nil {
		return err
	}
	report, err := c.Report(ctx, s.ID, 0)
	if err != nil {
		return err
	}
	d := begin(w, s, redact)
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
		case dropped != nil && !opens(s, ev):
			if err := d.Event(dropped); err != nil {
				return err
			}
			if err := before(ctx, c, s, d, dropped.Time); err != nil {
				return err
			}
		}
		dropped, empty = nil, false
		return d.Event(ev)
	})
	if err == nil && empty {
		d.Missing("history")
		err = before(ctx, c, s, d, nil)
	}
	if err != nil {
		return err
	}
	return d.Close(report)
}

// opens reports whether an event is the first of the session: the birth of its root, or its
// own beginning.
func opens(s *api.Session, ev *api.Event) bool {
	root := ev.Type == api.EventFork && ev.Process != nil && ev.Process.Evidence != nil && ev.Process.Evidence.Kind == "root"
	return ev.Session == s.ID && (root || ev.Type == api.EventSession && ev.State == api.StateActive)
}

// before adds the processes that started before the oldest event that the history has;
// nil: it has none. Only their beginning and end are known.
func before(ctx context.Context, c api.Client, s *api.Session, d Drawing, oldest *time.Time) error {
	tree, err := c.Tree(ctx, s.ID, "all")
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
		if err := d.Event(&api.Event{Head: api.Head{Kind: "process"}, Process: p}); err != nil {
			return err
		}
	}
	return nil
}
