package tui

import (
	"context"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// The pace of the feed.
const (
	paintEvery = 100 * time.Millisecond // at most so often is there something new to draw
	retryEvery = time.Second
)

// feed reads the daemon's frames for the model. What the model has not taken
// yet is one batch, in which later frames win: a slow terminal costs frames,
// never memory or truth.
type feed struct {
	client Client
	query  api.WatchQuery
	pause  func(context.Context, time.Duration) // waits that long, or for ctx

	mu    sync.Mutex
	next  feedMsg
	ready chan struct{} // holds one if next says something
}

// feedMsg is what happened since the last one.
type feedMsg struct {
	batch *picture.Batch // nil: no frame came
	away  error          // the stream is broken, and is asked for again
	over  string         // the stream has ended for good: why
}

func newFeed(c Client, q api.WatchQuery) *feed {
	return &feed{client: c, query: q, ready: make(chan struct{}, 1), pause: pause}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// run asks for the stream, again and again, until ctx is done. A stream that
// starts again begins with a whole picture.
func (f *feed) run(ctx context.Context) tea.Cmd {
	return func() tea.Msg {
		for ctx.Err() == nil {
			reason := ""
			err := f.client.Watch(ctx, f.query, func(frame *api.Frame) error {
				if frame.Kind == "end" {
					reason = frame.Reason
				}
				f.add(frame)
				return nil
			})
			switch {
			case ctx.Err() != nil:
			case err == nil && reason != "slow" && reason != "stopping":
				f.tell(feedMsg{over: reason})
				return nil
			case err == nil && reason == "slow":
			default:
				f.tell(feedMsg{away: awayError(err, reason)})
				f.pause(ctx, retryEvery)
			}
		}
		return nil
	}
}

type stopped string

func (s stopped) Error() string { return "it is " + string(s) }

func awayError(err error, reason string) error {
	if err != nil {
		return err
	}
	return stopped(reason)
}

func (f *feed) add(frame *api.Frame) {
	if frame.Kind != "snapshot" && frame.Kind != "diff" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next.away, f.next.over = nil, ""
	if f.next.batch == nil {
		f.next.batch = picture.NewBatch()
	}
	f.next.batch.Add(frame)
	if f.next.batch.Whole() {
		f.wake()
	}
}

func (f *feed) tell(msg feedMsg) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.next.batch; b != nil && !b.Whole() {
		f.next.batch = nil // half a picture is none
	}
	f.next.away, f.next.over = msg.away, msg.over
	f.wake()
}

func (f *feed) wake() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// wait gives the model what came, once it may draw again.
func (f *feed) wait(ctx context.Context) tea.Cmd {
	return func() tea.Msg {
		f.pause(ctx, paintEvery)
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-f.ready:
			}
			if msg, ok := f.take(); ok {
				return msg
			}
		}
	}
}

func (f *feed) take() (feedMsg, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.next.batch; b != nil && !b.Whole() {
		return feedMsg{}, false
	}
	msg := f.next
	f.next.batch = nil
	return msg, true
}
