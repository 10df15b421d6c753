package picture

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
)

func ref(pid int) api.Ref { return api.Ref{PID: pid, StartNS: api.U64(pid) * 1e9} }

func live(pid int, comm string) api.Process {
	return api.Process{Ref: ref(pid), Comm: comm, State: api.StateLive}
}

// startFeed runs a feed whose pauses take no time.
func startFeed(t *testing.T, watch func(ctx context.Context, each func(*api.Frame) error) error) *Feed {
	ctx, cancel := context.WithCancel(t.Context())
	f := NewFeed(func(context.Context) (Watcher, error) { return &apitest.Client{On: apitest.On{Watch: watch}}, nil })
	f.pause = func(context.Context, time.Duration) {}
	over := make(chan struct{})
	go func() { f.Run(ctx)(); close(over) }()
	t.Cleanup(func() { cancel(); <-over })
	return f
}

func next(t *testing.T, f *Feed) FeedMsg {
	t.Helper()
	msg, ok := f.Wait(t.Context())().(FeedMsg)
	if !ok {
		t.Fatal("the feed is over")
	}
	return msg
}

// A view that takes nothing for a while gets one batch, with the latest frame's data
// for each process.
func TestFeedKeepsTheLatest(t *testing.T) {
	ready, taken := make(chan struct{}), make(chan struct{})
	f := startFeed(t, func(ctx context.Context, each func(*api.Frame) error) error {
		each(&api.Frame{Head: api.Head{Kind: "snapshot"}, Upsert: []api.Process{live(1, "a"), live(2, "b")}})
		for i := range 1000 {
			p := live(3, "c")
			p.CPUSeconds = float64(i)
			each(&api.Frame{Head: api.Head{Kind: "diff"}, Upsert: []api.Process{p}})
		}
		each(&api.Frame{Head: api.Head{Kind: "diff"}, Remove: []api.Ref{ref(2)}})
		close(ready)
		<-taken
		each(&api.Frame{Head: api.Head{Kind: "diff"}, Partial: true, Upsert: []api.Process{live(4, "d")}})
		each(&api.Frame{Head: api.Head{Kind: "diff"}, Upsert: []api.Process{live(5, "e")}})
		<-ctx.Done()
		return ctx.Err()
	})
	<-ready
	b := next(t, f).Batch
	if !b.Reset || len(b.Upsert) != 2 || b.Upsert[ref(3)].CPUSeconds != 999 {
		t.Errorf("reset %t, %d processes", b.Reset, len(b.Upsert))
	}
	close(taken)
	if b := next(t, f).Batch; b.Reset || len(b.Upsert) != 2 {
		t.Errorf("half a frame came: reset %t, %d processes", b.Reset, len(b.Upsert))
	}
}

// The loss of the daemon is reported, and the stream is requested again; half a picture
// is never shown.
func TestFeedAsksAgain(t *testing.T) {
	broken := errors.New("broken")
	asked := 0
	gone := make(chan struct{})
	news := func(f *Feed) FeedMsg { // skips the message that there is a connection, which may come alone
		for {
			if msg := next(t, f); msg.Batch != nil || msg.Away != nil {
				return msg
			}
		}
	}
	f := startFeed(t, func(ctx context.Context, each func(*api.Frame) error) error {
		switch asked++; asked {
		case 1:
			each(&api.Frame{Head: api.Head{Kind: "snapshot"}, Partial: true, Upsert: []api.Process{live(1, "half")}})
			return broken
		case 2:
			<-gone
			each(&api.Frame{Head: api.Head{Kind: "end"}, Reason: "stopping"})
			return nil
		case 3:
			<-gone
			each(&api.Frame{Head: api.Head{Kind: "snapshot"}, Upsert: []api.Process{live(2, "whole")}})
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if msg := news(f); !errors.Is(msg.Away, broken) || msg.Batch != nil {
		t.Errorf("got %+v", msg)
	}
	gone <- struct{}{}
	if msg := news(f); msg.Away == nil || msg.Away.Error() != "the daemon is stopping" {
		t.Errorf("got %+v", msg)
	}
	gone <- struct{}{}
	if msg := news(f); msg.Away != nil || msg.Batch == nil || !msg.Batch.Reset || msg.Batch.Upsert[ref(2)] == nil {
		t.Errorf("got %+v", msg)
	}
}
