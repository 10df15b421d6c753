//go:build linux

package follow

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/model"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// nobody is a source that knows no session.
type nobody struct{}

func (nobody) Session(string) (*api.Session, error) { return nil, nil }
func (nobody) Tree(string) []api.Node               { return nil }
func (nobody) Redact(argv []string) []string        { return argv }

// hostile is a model of live members whose command lines are as long in JSON as they can be.
func hostile(members int) *model.Model {
	m := model.New(&record.Host{ID: "h"}, "boot", nobody{})
	for pid := range members {
		at := time.Unix(1e9, int64(pid))
		m.Apply(&api.Event{Head: api.Head{Kind: "event"}, Type: "exec", TimeNS: api.U64(pid + 1), Time: &at, Session: "aaaaaa", Process: &api.Process{
			Ref: api.Ref{PID: pid, StartNS: api.U64(pid)}, Session: "aaaaaa", Comm: "x", Exe: "/bin/x",
			Argv: []string{fmt.Sprint(pid, strings.Repeat("\x01", 990))}}})
	}
	return m
}

// heap is how many bytes the heap had more at most, while f ran, and afterwards.
func heap(f func()) (peak, after int64) {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // garbage counts, too
	alloc := func() int64 {
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	runtime.GC()
	before := alloc()
	done, most := make(chan struct{}), make(chan int64)
	go func() {
		top := before
		for {
			select {
			case <-done:
				most <- top
				return
			case <-time.After(2 * time.Millisecond):
				top = max(top, alloc())
			}
		}
	}()
	f()
	close(done)
	peak = <-most - before
	runtime.GC()
	return peak, alloc() - before
}

// counter is a sink that counts records.
type counter struct {
	list
	records, most int // in all, and in a batch
}

func (c *counter) Deliver(_ context.Context, batch []*record.Record) error {
	c.records, c.most = c.records+len(batch), max(c.most, len(batch))
	return nil
}

// TestManyOpens: processes that become a minute old at once do not make one large batch.
func TestManyOpens(t *testing.T) {
	const members, most = 20000, 16 << 20
	sink := &counter{}
	f := &Follower{Sink: sink, Store: &Store{}, Log: zerolog.Nop(), model: hostile(members)}
	peak, _ := heap(func() {
		require.NoError(t, f.tick(t.Context(), func() {}, time.Unix(2e9, 0)))
	})
	if n := sink.records + len(f.batch); n != members || sink.most > batchRecords || len(f.batch) >= batchRecords {
		t.Errorf("%d records; %d in a batch, %d left", n, sink.most, len(f.batch))
	}
	if peak > most {
		t.Errorf("%d MiB more memory", peak>>20)
	}
	if err := f.tick(t.Context(), func() {}, time.Unix(2e9, 0)); err != nil || sink.records+len(f.batch) != members {
		t.Errorf("%v; %d records after the next tick", err, sink.records+len(f.batch))
	}
}

// TestMemory: to save and to load the model of a host full of hostile members takes little more
// memory than that model.
func TestMemory(t *testing.T) {
	const most = 16 << 20
	store, err := OpenStore(t.TempDir())
	require.NoError(t, err)
	defer store.Close()
	f := &Follower{Sink: &list{}, Store: store, Host: &record.Host{ID: "h"}, Log: zerolog.Nop()}
	f.acked = place{Schema: schema, Boot: "boot", Seq: 1, TimeNS: 1e9, Time: time.Unix(1e9, 0)}
	f.model = hostile(20000)
	peak, _ := heap(func() { f.save(true) })
	info, err := os.Stat(store.dir.Path("list.model"))
	require.NoError(t, err)
	t.Logf("a file of %d MiB; %d KiB more memory to save it", info.Size()>>20, peak>>10)
	if peak > most {
		t.Errorf("%d MiB more memory to save it", peak>>20)
	}
	early := f.acked
	f.model = nil
	again := &Follower{Sink: f.Sink, Store: store, Host: f.Host, Log: zerolog.Nop(), early: early}
	peak, model := heap(again.restore)
	if again.model == nil {
		t.Fatal("the model was not loaded")
	}
	t.Logf("a model of %d MiB; %d KiB more memory to load it", model>>20, (peak-model)>>10)
	if peak-model > most {
		t.Errorf("%d MiB more memory to load it", (peak-model)>>20)
	}
	runtime.KeepAlive(again)
}
