//go:build linux

package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// frames reads a watch; close it to go away.
type frames struct {
	*testing.T
	scan    *bufio.Scanner
	close   func()
	picture *picture
}

func (w *world) watch(who, query string) *frames {
	w.Helper()
	scan, close := w.open(who, "/v1/watch"+query)
	scan.Buffer(nil, api.MaxLine)
	return &frames{w.T, scan, close, newPicture()}
}

// next applies the next line; nil at the end of the stream.
func (l *frames) next() *api.Frame {
	l.Helper()
	defer bound(l.T, l.close)()
	if !l.scan.Scan() {
		return nil
	}
	f := new(api.Frame)
	if err := json.Unmarshal(l.scan.Bytes(), f); err != nil {
		l.Fatalf("%v: %.200s", err, l.scan.Bytes())
	}
	l.picture.apply(f)
	return f
}

// until reads lines until the picture is right; the stream's end is none.
func (l *frames) until(what string, right func(*picture) bool) {
	l.Helper()
	defer bound(l.T, l.close)()
	for !right(l.picture) {
		if f := l.next(); f == nil || f.Kind == "end" {
			l.Fatalf("the stream ended before %s: %s", what, l.picture)
		}
	}
}

func (p *picture) pids() []int {
	pids := []int{}
	for r := range p.processes {
		pids = append(pids, r.PID)
	}
	slices.Sort(pids)
	return pids
}

func has(pids ...int) func(*picture) bool {
	return func(p *picture) bool { return slices.Equal(p.pids(), pids) }
}

func TestWatch(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{GraceMS: ms(0)})
	other := w.session("else", 300, api.NewSession{})
	w.k.Exec(100, "/bin/agent", "agent\x00--token=x\x00")
	l := w.watch("user", "")
	first := l.next()
	if first.Kind != "snapshot" || first.Status == nil || first.Status.Level != 4 || first.Status.Mode != "observe" || first.TimeNS == 0 || first.Status.ReadOnly {
		t.Errorf("%+v", first)
	}
	l.until("the root", has(100))
	if p := l.picture.sessions[s.ID]; p.State != "active" || p.Live != 1 || p.Token != "" || len(l.picture.sessions) != 1 {
		t.Errorf("%+v", l.picture.sessions)
	}
	w.k.Fork(100, 101, "lngtest-a")
	w.k.Fork(101, 102, "lngtest-b")
	w.k.Exit(101, 0x300)
	l.until("an orphan", func(p *picture) bool {
		for _, x := range p.processes {
			if x.Orphan && x.PID == 102 && x.Creator.PID == 101 && x.Session == s.ID {
				return has(100, 101, 102)(p)
			}
		}
		return false
	})
	l.until("its dead creator", func(p *picture) bool {
		for _, x := range p.processes {
			if x.PID == 101 && x.State == "exited" && x.ExitCode != nil && *x.ExitCode == 3 {
				return p.status.Forks == 2 && p.status.Live == 3 && p.sessions[s.ID].Live == 2
			}
		}
		return false
	})
	all := w.watch("root", "?hz=1")
	all.until("both sessions", has(100, 101, 102, 300))
	group := w.watch("reader", "")
	group.until("both sessions", has(100, 101, 102, 300))
	for _, x := range group.picture.processes {
		if x.Argv != nil {
			t.Errorf("another uid's argv: %+v", x)
		}
	}
	for _, d := range group.picture.sessions {
		if d.Root == nil || d.Root.Argv != nil {
			t.Errorf("another uid's argv: %+v", d.Root)
		}
	}
	if r := l.picture.sessions[s.ID].Root; r == nil || len(r.Argv) != 2 {
		t.Errorf("the own argv: %+v", r)
	}
	one := w.watch("root", "?session="+other.ID)
	one.until("the one session", has(300))
	member := w.watch("102", "")
	member.until("its own session", has(100, 101, 102))
	if !member.picture.status.ReadOnly {
		t.Error("a member may end something")
	}

	t.Run("what exited long ago leaves", func(t *testing.T) {
		w.k.Fork(100, 103, "lngtest-c")
		w.k.Exit(103, 0)
		l.until("it", has(100, 101, 102, 103))
		w.k.Advance(31 * time.Second)
		l.until("its leaving", has(100, 101, 102))
		all.until("its leaving", has(100, 101, 102, 300))
	})
	t.Run("a session that is over", func(t *testing.T) {
		mine := w.watch("user", "?session="+s.ID)
		mine.until("all of it", has(100, 101, 102))
		into[api.Report](w.do("user", "POST", "/v1/sessions/"+s.ID+"/end", api.EndRequest{Now: true}), http.StatusAccepted)
		var last *api.Frame
		for f := mine.next(); f != nil; f = mine.next() {
			last = f
		}
		if last == nil || last.Kind != "end" || last.Reason != "session_over" {
			t.Errorf("%+v", last)
		}
		if d := mine.picture.sessions[s.ID]; d.State != "ended" || d.EndReason != "end" || d.Ended == nil {
			t.Errorf("%+v", d)
		}
		l.until("its end", func(p *picture) bool { return p.sessions[s.ID].State == "ended" && p.status.Live == 1 })
		w.k.Advance(31 * time.Second)
		l.until("its leaving", func(p *picture) bool { return len(p.sessions) == 0 && len(p.processes) == 0 })
		gone := w.watch("user", "?session="+s.ID)
		if f := gone.next(); f == nil || f.Kind != "snapshot" || len(f.Upsert) != 0 {
			t.Errorf("%+v", f)
		}
		if f := gone.next(); f == nil || f.Reason != "session_over" {
			t.Errorf("%+v", f)
		}
	})
	t.Run("the daemon stops", func(t *testing.T) {
		go w.stop()
		var last *api.Frame
		for f := all.next(); f != nil; f = all.next() {
			last = f
		}
		if last == nil || last.Kind != "end" || last.Reason != "stopping" {
			t.Errorf("%+v", last)
		}
	})
}

func TestWatchRefused(t *testing.T) {
	w := newWorld(t)
	s := w.session("user", 100, api.NewSession{})
	for query, code := range map[string]string{
		"?hz=0": api.CodeBadRequest, "?hz=11": api.CodeBadRequest, "?hz=x": api.CodeBadRequest, "?hz=1.5": api.CodeBadRequest,
		"?hz=-1": api.CodeBadRequest, "?hz=99999999999999999999": api.CodeBadRequest,
		"?hz=1&hz=2": api.CodeBadRequest, "?rate=1": api.CodeBadRequest, "?session=nosuch": api.CodeNotFound,
	} {
		w.do("user", "GET", "/v1/watch"+query, nil).refused(code)
	}
	w.do("else", "GET", "/v1/watch?session="+s.ID, nil).refused(api.CodeDenied)
}

// TestWatchersComeAndGo: the registry notes changes only while somebody watches,
// and who comes back gets the picture of then.
func TestWatchersComeAndGo(t *testing.T) {
	w := newWorld(t)
	w.session("user", 100, api.NewSession{})
	watched := func() (yes bool) {
		_ = w.s.registry.Read(func(v registry.View) { yes = w.s.feed.stale != nil })
		return yes
	}
	if watched() {
		t.Error("changes are noted for nobody")
	}
	for n := range 3 {
		l := w.watch("user", "")
		want := []int{100}
		for i := range n {
			want = append(want, 101+i)
		}
		l.until("the picture", has(want...))
		if !watched() {
			t.Error("changes are not noted")
		}
		l.close()
		w.k.Fork(100, uint32(101+n), "lngtest-x")
		if n == 1 {
			w.until(func() bool { return !watched() })
		}
	}
}

// TestSlowWatcherIsDropped without a delay for anybody else.
func TestSlowWatcherIsDropped(t *testing.T) {
	w := newWorld(t, func(w *world) { w.h.limits.stall = 2 * time.Second })
	w.session("user", 100, api.NewSession{})
	for pid := uint32(1000); pid < 3000; pid++ {
		w.k.Fork(100, pid, "lngtest-x")
		w.k.Exec(pid, "/bin/x", strings.Repeat("long\x00", 100))
	}
	w.k.AllRead()
	nc, err := w.dial("user")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	fmt.Fprintf(nc, "GET /v1/watch HTTP/1.1\r\nHost: lineage\r\n\r\n")
	w.until(func() bool { return w.s.lines.Tally.Dropped.Load() == 1 })
	l := w.watch("user", "")
	l.until("all of it", func(p *picture) bool { return len(p.processes) == 2001 })
	if d := into[api.Status](w.do("root", "GET", "/v1/status", nil), http.StatusOK); d.Counters["readers_dropped"] != 1 {
		t.Errorf("%v", d.Counters)
	}
}

// TestWatchAfterProcfs: what ran before the daemon did has its command line
// from procfs.
func TestWatchAfterProcfs(t *testing.T) {
	w := newWorld(t)
	w.session("user", 100, api.NewSession{})
	l := w.watch("user", "")
	l.until("the command line", func(p *picture) bool {
		for _, x := range p.processes {
			return x.PID == 100 && slices.Equal(x.Argv, []string{"lngtest-root", "--flag"}) && x.Exe == "/bin/lngtest-root"
		}
		return false
	})
}

// gallery10k has 10,000 live processes in 100 sessions.
func gallery10k(tb testing.TB) (g *gallery, change func(n int)) {
	g = newGallery(tb.TempDir(), lineage.Options{})
	tb.Cleanup(g.stop)
	pid := uint32(100)
	var members []tracer.Identity
	var in []tracer.SessionID
	for range 100 {
		root := pid
		g.k.Add(root, 1, "lngtest-root")
		id := g.session(root, 1000)
		pid++
		for range 99 {
			g.k.Fork(root, pid, "lngtest-x")
			members, in = append(members, g.k.Proc(pid).Identity), append(in, id)
			pid++
		}
	}
	g.read(func() bool { return false })
	g.update(func(t registry.Tx) { g.f.track(t.View, true) })
	g.publish()
	at := uint64(g.k.Now())
	return g, func(n int) {
		batch := make([]tracer.Event, n)
		for i := range batch {
			at++
			k := int(at) % len(members)
			batch[i] = tracer.Event{Type: tracer.EventExec, Time: at, Process: members[k], Session: in[k], Filename: []byte("/bin/x"), Argv: []byte("x\x00-v\x00")}
		}
		g.update(func(t registry.Tx) { t.Apply(batch) })
	}
}

// nowhere takes replies.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkFrame is one frame at 10,000 live processes of which n changed: the
// owner's turns, and what one reader costs beside it.
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
					g.update(func(t registry.Tx) { g.f.turn(t.View) })
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
