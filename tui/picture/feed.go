package picture

import (
	"context"
	"errors"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
)

// The pace of the feed.
const (
	paintEvery = 100 * time.Millisecond // the shortest time between two drawings
	retryEvery = time.Second
)

type Watcher interface {
	Watch(ctx context.Context, each func(*api.Frame) error) error
}

// Feed reads the daemon's frames. Frames that wait for the view are one batch, in which later
// frames win: a slow terminal loses frames, but costs no memory and never shows a wrong picture.
type Feed struct {
	connect func(context.Context) (Watcher, error) // finds the daemon
	pause   func(context.Context, time.Duration)   // waits that long, or for ctx

	mu    sync.Mutex
	next  FeedMsg
	news  bool          // next has something for the view
	ready chan struct{} // has an element if next has news
}

type FeedMsg struct {
	Connected Watcher // the daemon that was found, once
	Batch     *Batch  // nil: no frame came
	Away      error   // the stream is broken, and is requested again
}

// NewFeed makes a feed that reads nothing before Run.
func NewFeed(connect func(context.Context) (Watcher, error)) *Feed {
	return &Feed{connect: connect, ready: make(chan struct{}, 1), pause: Pause}
}

func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Run finds the daemon and requests the stream, repeatedly, until ctx is done. Each new
// stream begins with a whole picture.
func (f *Feed) Run(ctx context.Context) tea.Cmd {
	return func() tea.Msg {
		w := f.find(ctx)
		for ctx.Err() == nil {
			reason := ""
			err := w.Watch(ctx, func(frame *api.Frame) error {
				if frame.Kind == "end" {
					reason = frame.Reason
				}
				f.Add(frame)
				return nil
			})
			if err == nil && reason != "slow" {
				err = errors.New("the daemon is stopping")
			}
			if ctx.Err() == nil && err != nil {
				f.send(FeedMsg{Away: err})
				f.pause(ctx, retryEvery)
			}
		}
		return nil
	}
}

func (f *Feed) find(ctx context.Context) (w Watcher) {
	for ctx.Err() == nil {
		var err error
		if w, err = f.connect(ctx); err == nil {
			f.send(FeedMsg{Connected: w})
			return w
		}
		f.send(FeedMsg{Away: err})
		f.pause(ctx, retryEvery)
	}
	return w
}

func (f *Feed) Add(frame *api.Frame) {
	if frame.Kind != "snapshot" && frame.Kind != "diff" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next.Away = nil
	if f.next.Batch == nil {
		f.next.Batch = NewBatch()
	}
	f.next.Batch.Add(frame)
	if !f.next.Batch.partial {
		f.wake()
	}
}

func (f *Feed) send(msg FeedMsg) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.next.Batch; b != nil && b.partial {
		f.next.Batch = nil // half a picture is useless
	}
	msg.Batch = f.next.Batch
	if msg.Connected == nil {
		msg.Connected = f.next.Connected
	}
	f.next = msg
	f.wake()
}

func (f *Feed) wake() {
	f.news = true
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// Wait gives the view what arrived, once it may draw again.
func (f *Feed) Wait(ctx context.Context) tea.Cmd {
	return func() tea.Msg {
		f.pause(ctx, paintEvery)
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-f.ready:
			}
			if msg, ok := f.Take(); ok {
				return msg
			}
		}
	}
}

// Take returns what arrived, unless a part is still missing.
func (f *Feed) Take() (FeedMsg, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.next.Batch; b != nil && b.partial || !f.news {
		return FeedMsg{}, false
	}
	msg := f.next
	f.next.Batch, f.next.Connected, f.news = nil, nil, false
	return msg, true
}
