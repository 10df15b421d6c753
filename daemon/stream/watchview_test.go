//go:build linux

package stream

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/registry/registrytest"
	"github.com/lineage-ebpf/lineage/enforcer"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
	"pgregory.net/rapid"
)

// gallery is a view over a registry that only the test calls: everything happens when
// the test wants it.
type gallery struct {
	*registrytest.Fixture
	f    *Feed
	stop func()
}

func newGallery(tb testing.TB, options lineage.Options) *gallery {
	r := registrytest.New(tb, func(o *registry.Options) { o.Graph = options })
	f := NewFeed(FeedOptions{
		Lines: Lines{Ground: r.Ground()},
		Status: func(v registry.View) api.WatchStatus {
			return api.WatchStatus{Lost: v.Lost(), Forks: v.Forks(), Live: v.Graph().Stats().Live}
		},
	})
	r.R.Attach(f.Hooks())
	f.scopes = make(map[tracer.SessionID]*access.Scope)
	return &gallery{r, f, r.Run()}
}

func (g *gallery) session(root uint32, uid uint32) tracer.SessionID {
	id, err := g.K.Create(tracer.SessionSpec{Root: g.K.Proc(root).Identity, UID: uid})
	if err != nil {
		panic(err)
	}
	return id
}

// read applies the kernel's events to the graph, except those that drop selects.
func (g *gallery) read(drop func() bool) {
	g.K.Lose(0) // the last one
	var batch []tracer.Event
	for {
		var ev tracer.Event
		if err := g.K.Read(&ev); err != nil {
			panic(err)
		}
		if ev.Type == tracer.EventLost {
			break
		}
		if !drop() {
			batch = append(batch, ev)
		}
	}
	g.Update(func(t registry.Tx) { t.Apply(batch) })
}

func (g *gallery) over(t *rapid.T, id tracer.SessionID, dissolved bool) {
	if info, err := g.K.Session(id); err != nil || info.State != tracer.StateActive {
		return
	}
	all := func() bool { return false }
	if dissolved {
		_, err := g.K.Dissolve(id)
		require.NoError(t, err)
		g.read(all)
		g.Update(func(tx registry.Tx) { tx.LetGo(id) })
		return
	}
	require.NoError(t, g.K.End(id, tracer.CauseEnd, 0))
	for _, pid := range g.members(id) {
		g.K.Exit(pid, 0)
	}
	_, _ = g.K.Settle(id)
	g.read(all)
	g.R.Judged(enforcer.Result{Session: id, Verdict: api.VerdictClean})
}

// members are the live members of a session, 0: of all.
func (g *gallery) members(id tracer.SessionID) (all []uint32) {
	_ = g.K.Snapshot(id, func(p *tracer.Process) error {
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
		g.Update(func(t registry.Tx) { g.f.turn(t.View) })
		g.f.view.publish(&g.f.batch)
	}
}

func (g *gallery) reader(c access.Caller) *watchReader {
	return &watchReader{w: &watcher{feed: g.f, out: g.f.o.To(httptest.NewRecorder(), c), caller: c, whole: true}, picture: apitest.NewPicture()}
}

type watchReader struct {
	w       *watcher
	picture *apitest.Picture
	lines   int
	rev     api.U64
}

// line reads one line; false: there is none now.
func (r *watchReader) line() bool {
	f, wake := r.w.next()
	if f.Kind != "" {
		if f.Rev < r.rev || f.Rev == r.rev && f.Kind == "diff" {
			panic(fmt.Sprintf("revision %d after %d", f.Rev, r.rev))
		}
		r.rev = f.Rev
		r.lines++
		r.picture.Apply(&f)
	}
	return wake == nil
}

func (r *watchReader) all() *apitest.Picture {
	for r.line() {
	}
	return r.picture
}

func (g *gallery) node(id lineage.ID) (n lineage.Node) {
	g.Update(func(t registry.Tx) { n, _ = t.Graph().Node(id) })
	return n
}

// expected are the processes that have to be in the picture, by the graph alone.
func (g *gallery) expected(dropped ...tracer.SessionID) map[api.Ref]bool {
	all := map[api.Ref]bool{}
	now := uint64(g.K.Now())
	ids := slices.Clone(dropped)
	var graph registry.Graph // nothing changes it now
	g.Update(func(t registry.Tx) {
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

// TestFramesMakeThePicture: whatever happens, is lost or comes late, and however slow a
// reader is, the lines in their order make the picture that a new reader gets, and that
// is the graph's.
func TestFramesMakeThePicture(t *testing.T) {
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		g := newGallery(outer, lineage.Options{History: rapid.SampledFrom([]int{0, 5}).Draw(t, "history")})
		defer g.stop()
		g.K.Add(100, 1, "lngtest-a")
		g.K.Add(101, 1, "lngtest-b")
		a, b := g.session(100, 1000), g.session(101, 1001)
		g.Update(func(tx registry.Tx) { g.f.track(tx.View, true) })
		g.publish()
		readers := []*watchReader{
			g.reader(access.Caller{}), g.reader(access.Caller{UID: 1000}), g.reader(access.Caller{UID: 1001}),
			g.reader(access.Caller{UID: 1002, Group: true}), g.reader(access.Caller{UID: 1000, Member: a}),
			g.reader(access.Caller{UID: 1003}),
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
				g.K.Fork(rapid.SampledFrom(live).Draw(t, "forks"), pid, "lngtest-x")
			case op == 4 && len(live) > 0:
				g.K.Exec(rapid.SampledFrom(live).Draw(t, "execs"), "/bin/x", "x\x00secret\x00")
			case op <= 6 && len(live) > 0:
				g.K.Exit(rapid.SampledFrom(live).Draw(t, "exits"), 1)
			case op == 7 && len(live) > 0 && nested < 4:
				nested++
				g.session(rapid.SampledFrom(live).Draw(t, "nests"), 1000)
			case op == 8:
				g.K.Advance(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			case op == 9:
				g.read(drop)
				_, err := g.R.Resync(registry.CauseNone)
				require.NoError(t, err)
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
			fresh := g.reader(r.w.caller)
			if got, want := r.all().String(), fresh.all().String(); got != want {
				t.Fatalf("reader %d has\n%s\nwant\n%s", i, got, want)
			}
		}
		want := g.expected(b)
		got := readers[0].picture.Processes
		for r := range got {
			if !want[r] {
				n := g.node(document.ID(r))
				t.Fatalf("%v is in the picture: %+v", r, n)
			}
		}
		for r := range g.expected() { // readers need not know those of a dropped session
			if _, ok := got[r]; !ok {
				n := g.node(document.ID(r))
				t.Fatalf("%v is not in the picture: %+v", r, n)
			}
		}
		for _, p := range readers[3].picture.Processes {
			if p.Argv != nil {
				t.Fatalf("another uid reads %q", p.Argv)
			}
		}
		for _, p := range readers[1].picture.Processes {
			if s := readers[1].picture.Sessions[p.Session]; p.Session != "" && s.UID != 1000 && s.ID != "" {
				t.Fatalf("uid 1000 sees %+v", p)
			}
		}
		require.Equal(t, len(readers[5].picture.Processes)+len(readers[5].picture.Sessions), 0)
	})
}

// TestSessionFoundByItsMembers: if all events of a session were lost, and a look did not
// ask for it, its members are still in the picture.
func TestSessionFoundByItsMembers(t *testing.T) {
	g := newGallery(t, lineage.Options{})
	defer g.stop()
	look := func() {
		t.Helper()
		_, err := g.R.Resync(registry.CauseNone)
		require.NoError(t, err)
	}
	g.K.Add(100, 1, "lngtest-a")
	g.K.Add(101, 1, "lngtest-b")
	g.session(100, 1000)
	look() // the first one lists all sessions
	g.Update(func(tx registry.Tx) { g.f.track(tx.View, true) })
	g.session(101, 1001)
	g.read(func() bool { return true })
	look()
	g.publish()
	if pids := g.reader(access.Caller{}).all().PIDs(); !slices.Equal(pids, []int{100, 101}) {
		t.Errorf("the picture has %d", pids)
	}
}

// TestChangedAround: what changes in a session changes the documents of those around it.
func TestChangedAround(t *testing.T) {
	g := newGallery(t, lineage.Options{})
	defer g.stop()
	g.K.Add(100, 1, "lngtest-a")
	outer := g.session(100, 1000)
	g.K.Fork(100, 101, "lngtest-b")
	inner := g.session(101, 1000)
	g.K.Add(200, 1, "lngtest-c")
	other := g.session(200, 1000)
	g.read(func() bool { return false })
	g.Update(func(tx registry.Tx) {
		for _, id := range []tracer.SessionID{outer, inner, other} {
			tx.Ask(id)
		}
		g.f.stale = make(map[tracer.SessionID]bool)
		g.f.changed(tx.View, inner)
		if !g.f.stale[inner] || !g.f.stale[outer] || g.f.stale[other] {
			t.Errorf("inner %v, outer %v, other %v", g.f.stale[inner], g.f.stale[outer], g.f.stale[other])
		}
	})
}

// TestForgottenRemovals: a reader that is further behind than removals are remembered
// starts again, and does not keep what is gone.
func TestForgottenRemovals(t *testing.T) {
	v := newView()
	r := &watchReader{w: &watcher{feed: &Feed{view: v}, whole: true}, picture: apitest.NewPicture()}
	id := func(i int) lineage.ID { return lineage.ID{PID: uint32(i), Start: 1} }
	var came, went batch
	for i := 1; i <= 2*viewRemovals+100; i++ {
		came.updates = append(came.updates, update{id: id(i), doc: api.Process{Ref: document.Ref(id(i))}, scope: &access.Scope{}, present: true})
		if i > 1 {
			went.forgot = append(went.forgot, id(i))
		}
	}
	v.publish(&came)
	require.Equal(t, len(r.all().Processes), len(came.updates))
	v.publish(&went)
	if n := len(v.log); n > 2*viewRemovals {
		t.Fatalf("%d changes are remembered", n)
	}
	if pids := r.all().PIDs(); !slices.Equal(pids, []int{1}) {
		t.Errorf("the reader has %d processes", len(pids))
	}
}

// TestWatchersComeAndGo: changes are noted only while there is a reader, and one that
// comes back gets the current picture.
func TestWatchersComeAndGo(t *testing.T) {
	g := newGallery(t, lineage.Options{})
	defer g.stop()
	over := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); <-over }()
	go func() { defer close(over); g.f.Run(ctx) }()
	watched := func() (yes bool) {
		g.Update(func(registry.Tx) { yes = g.f.stale != nil })
		return yes
	}
	g.K.Add(100, 1, "lngtest-root")
	g.session(100, 1000)
	g.read(func() bool { return false })
	if watched() {
		t.Error("changes are noted without a reader")
	}
	want := []int{100}
	for n := range 3 {
		if !g.f.join(ctx) {
			t.Fatal("the view is not ready")
		}
		r := g.reader(access.Caller{})
		require.Eventually(t, "the picture has all", func() bool { return slices.Equal(r.all().PIDs(), want) })
		if !watched() {
			t.Error("changes are not noted")
		}
		g.f.leave()
		if n == 1 {
			require.Eventually(t, "nobody watches", func() bool { return !watched() })
		}
		g.K.Fork(100, uint32(101+n), "lngtest-x")
		g.read(func() bool { return false })
		want = append(want, 101+n)
	}
}

// A status that was only measured again is no change.
func TestStatusMeasuredAgain(t *testing.T) {
	v, at := newView(), time.Unix(1, 0)
	st := api.WatchStatus{Degraded: []string{"x"}, Breaker: api.Breaker{Open: true, UIDs: []int{1}}, Halt: &api.Halt{Since: &at}}
	v.publish(&batch{status: st})
	rev := v.statusRev
	again := st
	again.Degraded, again.Breaker.UIDs = slices.Clone(st.Degraded), []int{1}
	again.Halt = &api.Halt{Since: new(at)}
	v.publish(&batch{status: again})
	require.Equal(t, v.statusRev, rev)
	again.Halt = &api.Halt{Since: new(at.Add(1))}
	v.publish(&batch{status: again})
	if v.statusRev == rev {
		t.Error("another halt is no change")
	}
}
