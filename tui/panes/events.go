package panes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

const (
	kept       = 1000            // events
	before     = 5 * time.Minute // of events that the pane begins with
	paintEvery = 100 * time.Millisecond
	retryEvery = time.Second
)

// EventsPane is the events of one session. Its goroutine reads them; the view takes those
// that arrived since the last time.
type EventsPane struct {
	Session string

	ctx    context.Context
	cancel context.CancelFunc
	events []*api.Event
	offset int // lines scrolled up from the last one
	err    error

	mu    sync.Mutex
	next  []*api.Event
	fail  error
	ready chan struct{}
}

type EventsMsg struct{ Pane *EventsPane }

// OpenEvents begins to read the events of a session, including those of the last minutes.
func OpenEvents(ctx context.Context, c Client, session string, now time.Time) (*EventsPane, tea.Cmd) {
	p := &EventsPane{Session: session, ready: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p, tea.Batch(p.read(c, api.EventsQuery{Session: session, Since: now.Add(-before)}), p.wait())
}

func (p *EventsPane) Close() { p.cancel() }

func (p *EventsPane) read(c Client, q api.EventsQuery) tea.Cmd {
	return func() tea.Msg {
		for p.ctx.Err() == nil {
			err := c.Events(p.ctx, q, func(ev *api.Event) error {
				if ev.Seq != 0 {
					q.From, q.Since = uint64(ev.Seq)+1, time.Time{}
				}
				if ev.Type != "" {
					p.put(ev, nil)
				}
				return nil
			})
			if !errors.Is(err, api.ErrBroken) {
				p.put(nil, err)
				return nil
			}
			picture.Pause(p.ctx, retryEvery) // the daemon is away
		}
		return nil
	}
}

// put keeps an event, or why there are no others, for the view.
func (p *EventsPane) put(ev *api.Event, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.next) == 2*kept {
		p.next = append(p.next[:0], p.next[kept:]...)
	}
	if p.fail = err; ev != nil {
		p.next = append(p.next, ev)
	}
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// wait notifies the view of new events, not more often than it paints.
func (p *EventsPane) wait() tea.Cmd {
	return func() tea.Msg {
		if picture.Pause(p.ctx, paintEvery); p.ctx.Err() != nil {
			return nil
		}
		select {
		case <-p.ready:
			return EventsMsg{p}
		case <-p.ctx.Done():
			return nil
		}
	}
}

// Take takes the new events, and waits for more.
func (p *EventsPane) Take() tea.Cmd {
	p.mu.Lock()
	next := p.next
	p.next, p.err = nil, p.fail
	p.mu.Unlock()
	if p.offset > 0 {
		p.offset += len(next)
	}
	p.events = append(p.events, next...)
	if over := len(p.events) - kept; over > 0 {
		p.events = append([]*api.Event(nil), p.events[over:]...)
	}
	return p.wait()
}

func (p *EventsPane) Scroll(lines int) { p.offset -= lines }

func (p *EventsPane) Lines(l *Labels, columns, rows int) []string {
	p.offset = max(min(p.offset, len(p.events)-rows), 0)
	end := len(p.events) - p.offset
	var lines []string
	for i := max(end-rows, 0); i < end; i++ {
		lines = append(lines, p.line(l, i, columns))
	}
	switch {
	case len(lines) > 0:
	case p.err != nil:
		lines = append(lines, l.Text(l.Warn, " ! "+display.Error(p.err), columns))
	default:
		lines = append(lines, l.Text(l.Dim, fmt.Sprintf(" no event in the last %.0f minutes; older: lineage events --since 1h",
			before.Minutes()), columns))
	}
	return lines
}

// Note says how many lines are below.
func (p *EventsPane) Note() string {
	if p.offset == 0 {
		return ""
	}
	return fmt.Sprintf("%d newer", p.offset)
}

// named names a process as in its last event up to the i-th. The picture forgets dead
// processes, and may have the name of a later exec.
func (p *EventsPane) named(l *Labels, ref api.Ref, i int) string {
	for ; i >= 0; i-- {
		if pr := p.events[i].Process; pr != nil && pr.Ref == ref && pr.Comm != "" {
			return ProcessLabel(pr)
		}
	}
	return l.Named(ref)
}

func (p *EventsPane) line(l *Labels, i, columns int) string {
	ev := p.events[i]
	out := l.Line(columns)
	when := "?"
	if ev.Time != nil {
		when = ev.Time.In(l.Now.Location()).Format("15:04:05.000")
	}
	out.Put(l.Dim, " "+when+"  ")
	about := display.About(ev, func(ref api.Ref) string { return p.named(l, ref, i) })
	pr := ev.Process
	paint, known := map[api.EventType]ink.Paint{api.EventFork: l.Live, api.EventExec: l.Key,
		api.EventReparent: l.Moved,
		api.EventSession:  l.Session, api.EventLost: l.Bad}[ev.Type]
	switch {
	case ev.Type == api.EventExit && pr != nil && (pr.Signal != "" || pr.ExitCode != nil && *pr.ExitCode != 0):
		paint = l.Bad
	case !known:
		paint = l.Dim
	}
	out.Put(paint, fmt.Sprintf("%-8s  ", display.Text(ev.Type)))
	if pr != nil {
		name := p.named(l, pr.Ref, i)
		if ev.Type == api.EventExec && len(pr.Argv) > 0 {
			name = fmt.Sprintf("%d %s", pr.PID, l.Command(pr))
		}
		if about != "" {
			name = l.Fit(name, max(out.Left-ink.Width(about)-2, 16)) + "  "
		}
		out.Put(ink.Paint{}, name)
	}
	out.Put(l.Dim, about)
	return out.Full()
}
