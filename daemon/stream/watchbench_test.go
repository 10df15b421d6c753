//go:build linux

package stream

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// gallery10k has 10,000 live processes in 100 sessions.
func gallery10k(tb testing.TB) (g *gallery, change func(n int)) {
	g = newGallery(tb, lineage.Options{})
	tb.Cleanup(g.stop)
	pid := uint32(100)
	var members []tracer.Identity
	var in []tracer.SessionID
	for range 100 {
		root := pid
		g.K.Add(root, 1, "lngtest-root")
		id := g.session(root, 1000)
		pid++
		for range 99 {
			g.K.Fork(root, pid, "lngtest-x")
			members, in = append(members, g.K.Proc(pid).Identity), append(in, id)
			pid++
		}
	}
	g.read(func() bool { return false })
	g.Update(func(t registry.Tx) { g.f.track(t.View, true) })
	g.publish()
	at := uint64(g.K.Now())
	return g, func(n int) {
		batch := make([]tracer.Event, n)
		for i := range batch {
			at++
			k := int(at) % len(members)
			batch[i] = tracer.Event{Type: tracer.EventExec, Time: at, Process: members[k], Session: in[k], Filename: []byte("/bin/x"), Argv: []byte("x\x00-v\x00")}
		}
		g.Update(func(t registry.Tx) { t.Apply(batch) })
	}
}

// nowhere discards replies.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkFrame is one frame at 10,000 live processes of which n changed: the turns in
// the registry's goroutine, and the cost of one reader beside it.
func BenchmarkFrame(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		g, change := gallery10k(b)
		r := g.reader(access.Caller{}, 0)
		r.all()
		b.Run(fmt.Sprintf("owner/changed=%d", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				change(n)
				b.StartTimer()
				for g.f.batch.more = true; g.f.batch.more; {
					g.Update(func(t registry.Tx) { g.f.turn(t.View) })
					b.StopTimer()
					g.f.view.publish(&g.f.batch)
					b.StartTimer()
				}
			}
		})
		b.Run(fmt.Sprintf("reader/changed=%d", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				change(n)
				g.publish()
				b.StartTimer()
				for more := true; more; {
					f, _, wake := r.w.next()
					r.w.out.Encode(f)
					r.w.out.Flush()
					more = wake == nil
				}
			}
		})
	}
}

// BenchmarkSnapshot is the first picture of 10,000 live processes.
func BenchmarkSnapshot(b *testing.B) {
	g, _ := gallery10k(b)
	for b.Loop() {
		r := g.reader(access.Caller{}, 0)
		for more := true; more; {
			f, _, wake := r.w.next()
			r.w.out.Encode(f)
			r.w.out.Flush()
			more = wake == nil
		}
	}
}
