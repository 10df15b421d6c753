package tui

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// startFeed runs a feed whose pauses take no time.
func startFeed(t *testing.T, watch func(ctx context.Context, each func(*api.Frame) error) error) *feed {
	ctx, cancel := context.WithCancel(t.Context())
	f := newFeed(&fake{watch: watch}, api.WatchQuery{})
	f.pause = func(context.Context, time.Duration) {}
	over := make(chan struct{})
	go func() { f.run(ctx)(); close(over) }()
	t.Cleanup(func() { cancel(); <-over })
	return f
}

func next(t *testing.T, f *feed) feedMsg {
	t.Helper()
	msg, ok := f.wait(t.Context())().(feedMsg)
	if !ok {
		t.Fatal("the feed is over")
	}
	return msg
}

// A view that takes nothing for a while gets one batch, the later frame's word
// for each process.
func TestFeedKeepsTheLatest(t *testing.T) {
	ready, taken := make(chan struct{}), make(chan struct{})
	f := startFeed(t, func(ctx context.Context, each func(*api.Frame) error) error {
		each(&api.Frame{Head: api.Head{Kind: "snapshot"}, Upsert: []api.Process{live(1, 1, 1, "a"), live(2, 1, 1, "b")}})
		for i := range 1000 {
			p := live(3, 1, 1, "c")
			p.CPUSeconds = float64(i)
			each(&api.Frame{Head: api.Head{Kind: "diff"}, Upsert: []api.Process{p}})
		}
		each(&api.Frame{Head: api.Head{Kind: "diff"}, Remove: []api.Ref{ref(2)}})
		close(ready)
		<-taken
		each(&api.Frame{Head: api.Head{Kind: "diff"}, Partial: true, Upsert: []api.Process{live(4, 1, 1, "d")}})
		each(&api.Frame{Head: api.Head{Kind: "diff"}, Upsert: []api.Process{live(5, 1, 1, "e")}})
		<-ctx.Done()
		return ctx.Err()
	})
	<-ready
	b := next(t, f).batch
	if !b.Reset || len(b.Upsert) != 2 || b.Upsert[ref(3)].CPUSeconds != 999 {
		t.Errorf("reset %t, %d processes", b.Reset, len(b.Upsert))
	}
	close(taken)
	if b := next(t, f).batch; b.Reset || len(b.Upsert) != 2 {
		t.Errorf("half a frame came: reset %t, %d processes", b.Reset, len(b.Upsert))
	}
}

// A daemon that goes away is told of, and asked again; half a picture of it is
// never shown.
func TestFeedAsksAgain(t *testing.T) {
	broken := errors.New("broken")
	asked := 0
	gone := make(chan struct{})
	f := startFeed(t, func(ctx context.Context, each func(*api.Frame) error) error {
		switch asked++; asked {
		case 1:
			each(&api.Frame{Head: api.Head{Kind: "snapshot"}, Partial: true, Upsert: []api.Process{live(1, 1, 1, "half")}})
			return broken
		case 2:
			<-gone
			each(&api.Frame{Head: api.Head{Kind: "end"}, Reason: "stopping"})
			return nil
		case 3:
			<-gone
			each(&api.Frame{Head: api.Head{Kind: "snapshot"}, Upsert: []api.Process{live(2, 1, 1, "whole")}})
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if msg := next(t, f); !errors.Is(msg.away, broken) || msg.batch != nil {
		t.Errorf("got %+v", msg)
	}
	gone <- struct{}{}
	if msg := next(t, f); msg.away == nil || msg.away.Error() != "it is stopping" {
		t.Errorf("got %+v", msg)
	}
	gone <- struct{}{}
	if msg := next(t, f); msg.away != nil || msg.batch == nil || !msg.batch.Reset || msg.batch.Upsert[ref(2)] == nil {
		t.Errorf("got %+v", msg)
	}
}

func TestFeedEnds(t *testing.T) {
	f := startFeed(t, func(_ context.Context, each func(*api.Frame) error) error {
		return each(&api.Frame{Head: api.Head{Kind: "end"}, Reason: "session_over"})
	})
	if msg := next(t, f); msg.over != "session_over" {
		t.Errorf("got %+v", msg)
	}
}
