package lineage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"pgregory.net/rapid"
)

// world is the reference: what a kernel would know, in simple maps that forget nothing,
// and the events that it would send.
type world struct {
	t       *rapid.T
	clock   uint64
	pid     uint32
	session SessionID
	all     map[ID]*person
	present []ID // live or zombie, oldest first
	events  []Event
}

type person struct {
	creator, parent ID
	session         SessionID
	evidence        Evidence
	since           uint64
	zombie          bool
	comm            string
}

var outside, launcher = ID{1, 1}, ID{2, 2}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, clock: 1000, pid: 9, all: map[ID]*person{}, session: 1}
	w.born(launcher, Root, 1)
	return w
}

func (w *world) tick() uint64 { w.clock++; return w.clock }

func (w *world) send(e Event) {
	e.Time = w.tick()
	if p := w.all[e.ID]; p != nil && e.Type != Reaped {
		e.Session = p.session
	}
	w.events = append(w.events, e)
}

// born makes creator fork. PIDs run in a small circle, as if pid_max were 40.
func (w *world) born(creator ID, evidence Evidence, session SessionID) {
	for {
		if w.pid++; w.pid > 40 {
			w.pid = 10
		}
		if !slices.ContainsFunc(w.present, func(id ID) bool { return id.PID == w.pid }) {
			break
		}
	}
	id := ID{w.pid, w.tick()}
	p := &person{creator: creator, parent: creator, session: session, evidence: evidence, since: w.clock, comm: "sh"}
	if c := w.all[creator]; c != nil {
		p.comm = c.comm
		if rapid.IntRange(0, 7).Draw(w.t, "clone_parent") == 0 {
			p.parent = c.parent
		}
	}
	w.all[id] = p
	w.present = append(w.present, id)
	w.send(Event{Type: Birth, ID: id, Evidence: evidence, Creator: creator, Parent: p.parent, Looks: called(p.comm)})
}

func (w *world) exec(id ID) {
	p := w.all[id]
	p.comm = rapid.SampledFrom([]string{"sh", "cc", "node"}).Draw(w.t, "comm")
	w.send(Event{Type: Exec, ID: id, Looks: called(p.comm), Exe: []byte("/bin/" + p.comm), Argv: []byte(p.comm + "\x00-x\x00")})
}

func (w *world) die(id ID) {
	w.all[id].zombie = true
	w.send(Event{Type: Exit, ID: id, Status: uint32(w.clock)})
	reaper := outside
	if live := w.live(); len(live) > 0 && rapid.Bool().Draw(w.t, "subreaper") {
		reaper = rapid.SampledFrom(live).Draw(w.t, "reaper")
	}
	for _, c := range w.present {
		if p := w.all[c]; p.parent == id {
			p.parent = reaper
			if c == reaper {
				p.parent = outside
			}
			w.send(Event{Type: Reparent, ID: c, From: id, Parent: p.parent})
		}
	}
}

func (w *world) reap(id ID) {
	w.present = slices.DeleteFunc(w.present, func(o ID) bool { return o == id })
	w.send(Event{Type: Reaped, ID: id})
}

func (w *world) nest(id ID) {
	w.session++
	p := w.all[id]
	p.session, p.evidence, p.since = w.session, Root, w.clock
	w.send(Event{Type: Birth, ID: id, Evidence: Root, Creator: p.creator, Parent: p.parent, Looks: called(p.comm)})
}

func (w *world) pick(zombie bool) []ID {
	return slices.DeleteFunc(slices.Clone(w.present), func(id ID) bool { return w.all[id].zombie != zombie })
}

func (w *world) live() []ID { return w.pick(false) }

func (w *world) run(steps int) {
	for range steps {
		live, zombies := w.live(), w.pick(true)
		op := rapid.IntRange(0, 9).Draw(w.t, "op")
		switch {
		case op == 0 && len(zombies) > 0, len(w.present) > 25 && len(zombies) > 0:
			w.reap(rapid.SampledFrom(zombies).Draw(w.t, "reaped"))
		case len(live) == 0:
			w.born(launcher, Root, 1)
		case op <= 2 || len(w.present) > 25:
			w.die(rapid.SampledFrom(live).Draw(w.t, "dies"))
		case op == 3:
			w.exec(rapid.SampledFrom(live).Draw(w.t, "execs"))
		case op == 4 && w.session < 4:
			w.nest(rapid.SampledFrom(live).Draw(w.t, "nests"))
		default:
			c := rapid.SampledFrom(live).Draw(w.t, "forks")
			w.born(c, Fork, w.all[c].session)
		}
	}
}

// end makes every process die and be reaped.
func (w *world) end() {
	for _, id := range w.live() {
		w.die(id)
	}
	for _, id := range slices.Clone(w.present) {
		w.reap(id)
	}
}

// take returns the events since the last take as an unreliable channel would deliver them.
func (w *world) take(loss, double, window int) []Event {
	type late struct {
		at int
		e  Event
	}
	var out []late
	for i, e := range w.events {
		for range 1 + rapid.IntRange(0, 99).Draw(w.t, "doubled")/(100-double) {
			if rapid.IntRange(0, 99).Draw(w.t, "kept") >= loss {
				out = append(out, late{i + rapid.IntRange(0, window).Draw(w.t, "delay"), e})
			}
		}
	}
	w.events = nil
	slices.SortStableFunc(out, func(a, b late) int { return a.at - b.at })
	events := make([]Event, len(out))
	for i := range out {
		events[i] = out[i].e
	}
	return events
}

func (w *world) snapshot() []Seen {
	var seen []Seen
	for _, id := range w.present {
		p := w.all[id]
		seen = append(seen, Seen{ID: id, Session: p.session, Since: p.since, Evidence: p.evidence,
			Creator: p.creator, Parent: p.parent, Looks: called(p.comm), CPUTime: w.clock, RSS: w.clock + id.Start, Dead: p.zombie, Zombie: p.zombie})
	}
	return append(seen, Seen{ID: outside, Looks: called("init")}, Seen{ID: launcher, Looks: called("launch")})
}

// agrees checks the graph against the world, after a resync.
func (w *world) agrees(g *Graph) {
	t := w.t
	counts := map[SessionID]Count{}
	for _, id := range w.present {
		p := w.all[id]
		n, ok := g.Node(id)
		state := Live
		if p.zombie {
			state = Zombie
		}
		if !ok || n.State != state || n.Session != p.session || n.Creator != p.creator || n.Parent != p.parent || n.Evidence != p.evidence {
			t.Fatalf("process %v: %+v\nin the graph: %v %+v", id, *p, ok, n)
		}
		if c := w.all[p.creator]; !p.zombie && n.Orphan != (p.evidence != Root && c != nil && w.dead(p.creator)) {
			t.Fatalf("process %v: orphan %v, creator %v", id, n.Orphan, p.creator)
		}
		c := counts[p.session]
		if p.zombie {
			c.Zombies++
		} else {
			c.Live++
			c.RSS += n.Use.RSS
		}
		if n.Orphan {
			c.Orphans++
		}
		counts[p.session] = c
	}
	for s := SessionID(1); s <= w.session; s++ {
		got := g.Count(s)
		got.CPUTime = 0 // audit knows which Exits were lost
		if got != counts[s] {
			t.Fatalf("session %d: %+v in the graph, %+v in the world", s, got, counts[s])
		}
	}
	require.Equal(t, g.Stats().Live, len(w.live()))
	for id := range w.all {
		for _, e := range g.Ancestry(id) {
			if p := w.all[e.Child]; p != nil && e.Creator.names() && e.Creator != p.creator {
				t.Fatalf("ancestry of %v says %v created %v, it was %v", id, e.Creator, e.Child, p.creator)
			}
		}
	}
	require.NoError(t, audit(g))
}

func (w *world) dead(id ID) bool { return w.all[id].zombie || !slices.Contains(w.present, id) }

func apply(g *Graph, events []Event) {
	for i := range events {
		g.Apply(&events[i])
	}
}

// T11: whatever is lost, doubled or late, a resync makes graph and world agree, and
// nothing remains when all are gone.
func TestResyncConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New(Options{History: rapid.SampledFrom([]int{4, 16, 1000}).Draw(t, "history")})
		w := newWorld(t)
		loss := rapid.SampledFrom([]int{0, 10, 50, 95}).Draw(t, "loss")
		for range 3 {
			w.run(rapid.IntRange(1, 40).Draw(t, "steps"))
			events := w.take(loss, 20, rapid.SampledFrom([]int{0, 3, 1000}).Draw(t, "window"))
			late := rapid.IntRange(0, len(events)).Draw(t, "late")
			apply(g, events[:late])
			g.Resync(w.tick(), w.snapshot())
			apply(g, events[late:])
			g.Resync(w.tick(), w.snapshot())
			w.agrees(g)
		}
		w.end()
		apply(g, w.take(loss, 20, 1000))
		g.Resync(w.tick(), w.snapshot())
		w.agrees(g)
		if s := g.Stats(); s.Kept != 0 || s.Nodes != s.History {
			t.Fatalf("left after all have gone: %+v", s)
		}
		for s := range w.session {
			g.Forget(s + 1)
		}
		g.options.History = 0
		g.trim()
		if s := g.Stats(); s.Nodes+s.Sessions+s.Images+s.Ghosts != 0 {
			t.Fatalf("left without history: %+v", s)
		}
	})
}

// Without loss no resync is needed: any order, with repeats, gives the same graph as
// the order of time, to the last field.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.run(rapid.IntRange(1, 60).Draw(t, "steps"))
		ordered, mixed := New(Options{}), New(Options{})
		apply(ordered, w.events)
		w.agrees(ordered)
		for id := range w.all { // nothing is forgotten: every ancestry is whole
			edges := ordered.Ancestry(id)
			if last := edges[len(edges)-1]; last.Kind != KindRoot {
				t.Fatalf("ancestry of %v ends at %+v", id, last)
			}
		}
		apply(mixed, w.take(0, 20, rapid.SampledFrom([]int{3, 1000}).Draw(t, "window")))
		if got, want := dump(mixed), dump(ordered); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		require.NoError(t, audit(mixed))
	})
}

// sound fails if the graph has counted something wrong.
func sound(t *testing.T, g *Graph) {
	t.Helper()
	require.NoError(t, audit(g))
}

// audit recounts what the graph counts incrementally.
func audit(g *Graph) error {
	ids := allNodes(g)
	if len(ids) != g.index.n {
		return fmt.Errorf("%d nodes, index says %d", len(ids), g.index.n)
	}
	var live, ghosts, kept, history int
	counts := map[SessionID]Count{}
	refs := map[*Image]int{}
	holders := map[uint32]ID{}
	for _, id := range ids {
		n := g.index.find(id)
		if n == nil {
			return fmt.Errorf("%v is not in the index", id)
		}
		need := uint32(0)
		var prev *node
		for c := n.children.head; c != nil; c = c.links[siblings].next {
			if c.creator != n || prev != nil && prev.id.compare(c.id) >= 0 {
				return fmt.Errorf("%v: child %v out of place", id, c.id)
			}
			if c.held {
				need++
			}
			prev = c
		}
		if n.need != need || n.held != (n.present() || need > 0) {
			return fmt.Errorf("%v: held %v, need %d of %d", id, n.held, n.need, need)
		}
		if n.present() && n.creator == nil && n.creatorID.names() && n.creatorID.Start < n.id.Start {
			return fmt.Errorf("%v: creator %v forgotten while needed", id, n.creatorID)
		}
		switch {
		case n.present():
			if other, taken := holders[id.PID]; taken {
				return fmt.Errorf("%v and %v are both present", other, id)
			}
			holders[id.PID] = id
		case n.held:
			kept++
		default:
			history++
		}
		if n.state == Live {
			live++
		}
		if !n.known {
			ghosts++
		}
		if n.session != nil {
			c := counts[n.session.id]
			now := *n
			now.standing = n.stands()
			c.add(&now, 1)
			counts[n.session.id] = c
		}
		if n.inherited != nil {
			refs[n.inherited]++
		}
		for _, x := range n.execs {
			refs[x.image]++
		}
	}
	s := g.Stats()
	if s.Live != live || s.Ghosts != ghosts || s.Kept != kept || s.History != history {
		return fmt.Errorf("%+v, counted live %d ghosts %d kept %d history %d", s, live, ghosts, kept, history)
	}
	if s.History > g.options.History {
		return fmt.Errorf("history of %d, bound %d", s.History, g.options.History)
	}
	if len(counts) != len(g.sessions) {
		return fmt.Errorf("%d sessions, %d in use", len(g.sessions), len(counts))
	}
	for id, c := range counts {
		if g.Count(id) != c {
			return fmt.Errorf("session %d: %+v, counted %+v", id, g.Count(id), c)
		}
	}
	if len(refs) != len(g.images.byKey) {
		return fmt.Errorf("%d images, %d in use", len(g.images.byKey), len(refs))
	}
	for i, n := range refs {
		if i.refs != n {
			return fmt.Errorf("image %q: %d references, counted %d", i.key, i.refs, n)
		}
	}
	return nil
}
