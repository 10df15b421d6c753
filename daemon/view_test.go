//go:build linux

package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/audit"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/metrics"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/selfcheck"
	"github.com/lineage-ebpf/lineage/daemon/stream"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/enforcer/kerneltest"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"
)

// silence is an audit log for nobody.
type silence struct{}

func (silence) Add(audit.Record) {}
func (silence) Err() error       { return nil }
func (silence) Close() error     { return nil }

// gallery is a view over a registry that nobody else calls: everything happens when
// the test says so.
type gallery struct {
	k *kerneltest.Kernel
	o *registry.Registry
	f *feed

	stop func()
}

func newGallery(dir string, options lineage.Options) *gallery {
	k := kerneltest.New()
	c := registry.Clock{Monotonic: k.Now, Boottime: func() uint64 { return uint64(k.Now()) }, Clock: func() time.Time { return time.Unix(0, 0) }}
	o := registry.New(registry.Options{
		Kernel: k, Enforcer: enforcer.New(k, enforcer.Options{Clock: k.Now}), Clock: c, Proc: procfs.FS(dir), Log: zerolog.Nop(), Graph: options,
	})
	s := &server{
		kernel: k, registry: o, proc: procfs.FS(dir), clock: c, audit: silence{}, selfCheck: &selfcheck.Check{}, exporter: &metrics.Exporter{},
		rules: defaultRules(c),
	}
	s.feed = newFeed(s)
	o.Attach(&registry.Hooks{Changed: s.feed.changed})
	s.feed.scopes, s.feed.looked = make(map[tracer.SessionID]*access.Scope), make(map[lineage.ID]commandLine)
	ctx, cancel := context.WithCancel(context.Background())
	go o.Run(ctx)
	return &gallery{k, o, s.feed, func() { cancel(); <-o.Done() }}
}

func (g *gallery) update(f func(registry.Tx)) {
	if err := g.o.Update(f); err != nil {
		panic(err)
	}
}

func (g *gallery) session(root uint32, uid uint32) tracer.SessionID {
	id, err := g.k.Create(tracer.SessionSpec{Root: g.k.Proc(root).Identity, UID: uid})
	if err != nil {
		panic(err)
	}
	return id
}

// read takes what the kernel told into the graph, but what drop says.
func (g *gallery) read(drop func() bool) {
	g.k.Lose(0) // the last one
	var batch []tracer.Event
	for {
		var ev tracer.Event
		if err := g.k.Read(&ev); err != nil {
			panic(err)
		}
		if ev.Type == tracer.EventLost {
			break
		}
		if !drop() {
			batch = append(batch, ev)
		}
	}
	g.update(func(t registry.Tx) { t.Apply(batch) })
}

// over ends a session with all its members, or lets go of it.
func (g *gallery) over(t *rapid.T, id tracer.SessionID, dissolved bool) {
	if info, err := g.k.Session(id); err != nil || info.State != tracer.StateActive {
		return
	}
	all := func() bool { return false }
	if dissolved {
		if _, err := g.k.Dissolve(id); err != nil {
			t.Fatal(err)
		}
		g.read(all)
		g.update(func(tx registry.Tx) { tx.LetGo(id) })
		return
	}
	if err := g.k.End(id, tracer.CauseEnd, 0); err != nil {
		t.Fatal(err)
	}
	for _, pid := range g.members(id) {
		g.k.Exit(pid, 0)
	}
	_, _ = g.k.Settle(id)
	g.read(all)
	g.o.Judged(enforcer.Result{Session: id, Verdict: api.VerdictClean})
}

// members are the live ones of a session, 0: of any.
func (g *gallery) members(id tracer.SessionID) (all []uint32) {
	_ = g.k.Snapshot(id, func(p *tracer.Process) error {
		if p.Session != 0 && !p.Dead {
			all = append(all, p.PID)
		}
		return nil
	})
	return all
}

// publish brings the view up to date.
func (g *gallery) publish() {
	for g.f.batch.more = true; g.f.batch.more; {
		g.update(func(t registry.Tx) { g.f.turn(t.View) })
		g.f.look()
		g.f.view.publish(&g.f.batch)
	}
}

func (g *gallery) reader(c access.Caller, session tracer.SessionID) *reader {
	return &reader{w: &watcher{feed: g.f, out: new(stream.Lines).To(nowhere{}, c), caller: c, session: session, whole: true}, picture: newPicture()}
}

// picture is what a client has after some lines.
type picture struct {
	processes map[api.Ref]api.Process
	sessions  map[string]api.Session
	status    api.WatchStatus
}

func newPicture() *picture {
	return &picture{processes: map[api.Ref]api.Process{}, sessions: map[string]api.Session{}}
}

func (p *picture) apply(f *api.Frame) {
	if f.Kind == "snapshot" {
		*p = *newPicture()
	}
	for _, r := range f.Remove {
		delete(p.processes, r)
	}
	for _, id := range f.Closed {
		delete(p.sessions, id)
	}
	for _, u := range f.Upsert {
		p.processes[u.Ref] = u
	}
	for _, s := range f.Sessions {
		p.sessions[s.ID] = s
	}
	if f.Status != nil {
		p.status = *f.Status
	}
}

func (p *picture) String() string {
	all := struct {
		Processes []api.Process
		Sessions  []api.Session
		Status    api.WatchStatus
	}{Status: p.status}
	for _, r := range slices.SortedFunc(maps.Keys(p.processes), func(a, b api.Ref) int { return a.PID - b.PID }) {
		all.Processes = append(all.Processes, p.processes[r])
	}
	for _, id := range slices.Sorted(maps.Keys(p.sessions)) {
		all.Sessions = append(all.Sessions, p.sessions[id])
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		panic(err)
	}
	return string(b)
}

// reader is a client of the view.
type reader struct {
	w       *watcher
	picture *picture
	lines   int
	rev     api.U64
}

// line reads one line; false: there is none now.
func (r *reader) line() bool {
	f, _, wake := r.w.next()
	if f.Kind != "" {
		if f.Rev < r.rev || f.Rev == r.rev && f.Kind == "diff" {
			panic(fmt.Sprintf("revision %d after %d", f.Rev, r.rev))
		}
		r.rev = f.Rev
		r.lines++
		r.picture.apply(&f)
	}
	return wake == nil
}

func (r *reader) all() *picture {
	for r.line() {
	}
	return r.picture
}

func (g *gallery) node(id lineage.ID) (n lineage.Node) {
	g.update(func(t registry.Tx) { n, _ = t.Graph().Node(id) })
	return n
}

// expected is who has to be in the picture, by the graph alone.
func (g *gallery) expected(dropped ...tracer.SessionID) map[api.Ref]bool {
	all := map[api.Ref]bool{}
	now := uint64(g.k.Now())
	ids := slices.Clone(dropped)
	var graph registry.Graph // nobody changes it now
	g.update(func(t registry.Tx) {
		graph = t.Graph()
		for x := range t.Sessions() {
			ids = append(ids, x.ID())
		}
	})
	for _, b := range graph.Tree(true, ids...) {
		n, _ := graph.Node(b.ID)
		if !n.Ghost && (n.State == lineage.Live || n.State == lineage.Zombie) || n.Exited+uint64(viewMemory) > now && n.Exited != 0 {
			for ; slices.Contains(ids, n.Session); n, _ = graph.Node(n.Under) {
				all[document.Ref(n.ID)] = true
			}
		}
	}
	return all
}

// TestFramesMakeThePicture: whatever happens, is lost or comes late, and however
// slow somebody reads, the lines in their order make the picture that a new
// reader gets, and that is the graph's.
func TestFramesMakeThePicture(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		g := newGallery(dir, lineage.Options{History: rapid.SampledFrom([]int{0, 5}).Draw(t, "history")})
		defer g.stop()
		g.k.Add(100, 1, "lngtest-a")
		g.k.Add(101, 1, "lngtest-b")
		a, b := g.session(100, 1000), g.session(101, 1001)
		g.update(func(tx registry.Tx) { g.f.track(tx.View, true) })
		g.publish()
		readers := []*reader{
			g.reader(access.Caller{}, 0), g.reader(access.Caller{UID: 1000}, 0), g.reader(access.Caller{UID: 1001}, b),
			g.reader(access.Caller{UID: 1002, Group: true}, a), g.reader(access.Caller{UID: 1000, Member: a}, 0),
			g.reader(access.Caller{UID: 1003}, 0),
		}
		pid, nested := uint32(200), 0
		lossy := rapid.Bool().Draw(t, "lossy")
		drop := func() bool { return lossy && rapid.IntRange(0, 9).Draw(t, "dropped") == 0 }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			live := g.members(0)
			op := rapid.IntRange(0, 11).Draw(t, "op")
			switch {
			case op <= 3 && len(live) > 0:
				pid++
				g.k.Fork(rapid.SampledFrom(live).Draw(t, "forks"), pid, "lngtest-x")
			case op == 4 && len(live) > 0:
				g.k.Exec(rapid.SampledFrom(live).Draw(t, "execs"), "/bin/x", "x\x00secret\x00")
			case op <= 6 && len(live) > 0:
				g.k.Exit(rapid.SampledFrom(live).Draw(t, "exits"), 1)
			case op == 7 && len(live) > 0 && nested < 4:
				nested++
				g.session(rapid.SampledFrom(live).Draw(t, "nests"), 1000)
			case op == 8:
				g.k.Advance(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			case op == 9:
				g.read(drop)
				if _, err := g.o.Resync(registry.CauseNone); err != nil {
					t.Fatal(err)
				}
			case op == 10:
				g.over(t, b, rapid.Bool().Draw(t, "dissolved"))
			case op == 11:
				g.read(drop)
				g.publish()
			}
			for _, r := range readers {
				if rapid.IntRange(0, 3).Draw(t, "reads") == 0 {
					r.line()
				}
			}
		}
		g.read(drop)
		g.publish()
		for i, r := range readers {
			fresh := g.reader(r.w.caller, r.w.session)
			if got, want := r.all().String(), fresh.all().String(); got != want {
				t.Fatalf("reader %d has\n%s\nwant\n%s", i, got, want)
			}
		}
		want := g.expected(b)
		got := readers[0].picture.processes
		for r := range got {
			if !want[r] {
				n := g.node(document.ID(r))
				t.Fatalf("%v is in the picture: %+v", r, n)
			}
		}
		for r := range g.expected() { // of a dropped session nobody need know
			if _, ok := got[r]; !ok {
				n := g.node(document.ID(r))
				t.Fatalf("%v is not in the picture: %+v", r, n)
			}
		}
		for _, p := range readers[3].picture.processes {
			if p.Argv != nil {
				t.Fatalf("another uid reads %q", p.Argv)
			}
		}
		for _, p := range readers[1].picture.processes {
			if s := readers[1].picture.sessions[p.Session]; p.Session != "" && s.UID != 1000 && s.ID != "" {
				t.Fatalf("uid 1000 sees %+v", p)
			}
		}
		if n := len(readers[5].picture.processes) + len(readers[5].picture.sessions); n != 0 {
			t.Fatalf("a stranger sees %d", n)
		}
	})
}
