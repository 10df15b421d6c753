package picture

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lineage-ebpf/lineage/api"
)

// dump writes the rows as they would be shown if nothing were folded.
func dump(p *Picture) string {
	var b strings.Builder
	var write func(r *Row, depth int)
	write = func(r *Row, depth int) {
		for c := r.first; c != nil; c = c.next {
			fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", depth), label(c))
			write(c, depth+1)
		}
	}
	write(p.top, 0)
	return b.String()
}

func label(r *Row) string {
	if r.Kind == SessionRow {
		return "session " + r.Session.ID + " " + string(r.Session.State)
	}
	return fmt.Sprintf("%v %s %s", r.Process.Ref, r.Process.Comm, r.Process.State)
}

func check(t interface{ Fatalf(string, ...any) }, p *Picture) {
	seen := map[*Row]bool{}
	var walk func(r *Row) (size, live, hits int32)
	walk = func(r *Row) (size, live, hits int32) {
		if seen[r] {
			t.Fatalf("%s is there twice", label(r))
		}
		seen[r] = true
		if r.Kind == ProcessRow {
			size = 1
		}
		if r == p.held || r.Kind == ProcessRow && r.Process.State != "exited" {
			live = 1
		}
		if r.match {
			hits = 1
		}
		var prev *Row
		for c := r.first; c != nil; c = c.next {
			if c.up != r || c.prev != prev || c.gone || prev != nil && prev.compare(c) >= 0 {
				t.Fatalf("%s is not linked as it should be", label(c))
			}
			s, l, h := walk(c)
			size, live, hits, prev = size+s, live+l, hits+h, c
		}
		if r.last != prev || size != r.size || live != r.live || hits != r.hits {
			t.Fatalf("%s: size %d, live %d, hits %d; want %d, %d, %d\n%s", label(r), r.size, r.live, r.hits, size, live, hits, dump(p))
		}
		return size, live, hits
	}
	walk(p.top)
	for _, r := range p.processes {
		if !seen[r] {
			t.Fatalf("%s is not in the tree", label(r))
		}
	}
	for _, r := range p.sessions {
		if !seen[r] {
			t.Fatalf("%s is not in the tree", label(r))
		}
	}
	if want := len(p.processes) + len(p.sessions); len(seen) < want {
		t.Fatalf("%d rows for %d", len(seen), want)
	}
}

// host is what a daemon knows: the model that pictures are compared with.
type host struct {
	processes map[api.Ref]api.Process
	sessions  map[string]api.Session
	rings     bool // sessions may be nested in a cycle, which no daemon sends
}

func newHost() *host {
	return &host{processes: map[api.Ref]api.Process{}, sessions: map[string]api.Session{}}
}

var ids = []string{"a", "b", "c"}

// step changes the host at random, and returns the frame with the changes. Starts and
// PIDs are few, so that PIDs are reused and creators are missing.
func (h *host) step(t *rapid.T) *api.Frame {
	f := &api.Frame{Head: api.Head{Kind: "diff"}}
	for range rapid.IntRange(1, 6).Draw(t, "changes") {
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0:
			id := rapid.SampledFrom(ids).Draw(t, "closed")
			delete(h.sessions, id)
			f.Sessions = slices.DeleteFunc(f.Sessions, func(s api.Session) bool { return s.ID == id })
			f.Closed = append(f.Closed, id)
		case 1, 2:
			s := api.Session{ID: rapid.SampledFrom(ids).Draw(t, "session"),
				State: rapid.SampledFrom([]api.SessionState{"active", "active", "ended"}).Draw(t, "state"), Name: "n"}
			if rapid.Bool().Draw(t, "nested") {
				if parent := rapid.SampledFrom(ids).Draw(t, "parent"); h.rings || parent < s.ID {
					s.Parent = parent
				}
			}
			if rapid.Bool().Draw(t, "rooted") {
				root := process(t)
				s.Root = &root
			}
			h.sessions[s.ID] = s
			f.Closed = slices.DeleteFunc(f.Closed, func(id string) bool { return id == s.ID })
			f.Sessions = append(f.Sessions, s)
		case 3, 4:
			if len(h.processes) == 0 {
				continue
			}
			refs := make([]api.Ref, 0, len(h.processes))
			for ref := range h.processes {
				refs = append(refs, ref)
			}
			slices.SortFunc(refs, func(a, b api.Ref) int { return int(a.StartNS) - int(b.StartNS) + 100*(a.PID-b.PID) })
			ref := rapid.SampledFrom(refs).Draw(t, "gone")
			delete(h.processes, ref)
			f.Upsert = slices.DeleteFunc(f.Upsert, func(p api.Process) bool { return p.Ref == ref })
			f.Remove = append(f.Remove, ref)
		default:
			p := process(t)
			h.processes[p.Ref] = p
			f.Remove = slices.DeleteFunc(f.Remove, func(r api.Ref) bool { return r == p.Ref })
			f.Upsert = append(f.Upsert, p)
		}
	}
	return f
}

func process(t *rapid.T) api.Process {
	ref := func(name string) api.Ref {
		return api.Ref{PID: rapid.IntRange(1, 6).Draw(t, name), StartNS: api.U64(rapid.IntRange(1, 6).Draw(t, name+" start"))}
	}
	p := api.Process{Ref: ref("pid"), Session: rapid.SampledFrom(ids).Draw(t, "in"),
		Comm:  rapid.SampledFrom([]string{"sh", "cc"}).Draw(t, "comm"),
		State: rapid.SampledFrom([]api.ProcessState{api.StateLive, api.StateExited, api.StateExited, api.StateZombie}).Draw(t, "state")}
	if rapid.IntRange(0, 4).Draw(t, "created") > 0 {
		p.Creator = new(ref("creator"))
	}
	for _, id := range rapid.SampledFrom([][]string{nil, nil, {"one"}, {"one", "two"}}).Draw(t, "calls") {
		p.Calls = append(p.Calls, api.Call{ID: id})
	}
	return p
}

func (h *host) snapshot() *api.Frame {
	f := &api.Frame{Head: api.Head{Kind: "snapshot"}}
	for _, p := range h.processes {
		f.Upsert = append(f.Upsert, p)
	}
	for _, s := range h.sessions {
		f.Sessions = append(f.Sessions, s)
	}
	return f
}

func batch(frames ...*api.Frame) *Batch {
	b := NewBatch()
	for _, f := range frames {
		b.Add(f)
	}
	return b
}

// However the frames arrive, one by one, several at once, or with a snapshot in
// between, the picture equals that of a snapshot.
func TestDiffsAreTheSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, p := newHost(), New()
		var held []*Batch
		for range rapid.IntRange(1, 30).Draw(t, "frames") {
			f := h.step(t)
			if rapid.IntRange(0, 9).Draw(t, "again") == 0 {
				f = h.snapshot()
			}
			held = append(held, batch(f))
			switch rapid.IntRange(0, 2).Draw(t, "when") {
			case 0:
				continue
			case 1:
				one := held[0]
				for _, b := range held[1:] {
					one.Merge(b)
				}
				p.Apply(one)
			case 2:
				for _, b := range held {
					p.Apply(b)
				}
			}
			held = nil
			check(t, p)
			want := New()
			want.Apply(batch(h.snapshot()))
			if got, want := dump(p), dump(want); got != want {
				t.Fatalf("got\n%s\nwant\n%s", got, want)
			}
		}
	})
}

// Every process is under its creator if that is in the same session, else under its
// session.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, p := newHost(), New()
		for range rapid.IntRange(1, 20).Draw(t, "frames") {
			p.Apply(batch(h.step(t)))
		}
		for ref, r := range p.processes {
			up, pr := r.up, r.Process
			if pr.Creator != nil {
				c := p.processes[*pr.Creator]
				if c != nil && c.Process.Session == pr.Session && c.compare(r) < 0 {
					if up != c {
						t.Fatalf("%v is not under its creator\n%s", ref, dump(p))
					}
					continue
				}
			}
			if up != p.sessions[pr.Session] {
				t.Fatalf("%v is not under its session\n%s", ref, dump(p))
			}
		}
	})
}

func at(pid, start int) api.Ref { return api.Ref{PID: pid, StartNS: api.U64(start)} }

func born(ref api.Ref, creator *api.Ref, comm string) api.Process {
	return api.Process{Ref: ref, Session: "a", Creator: creator, Comm: comm, State: "live"}
}

// A fold belongs to a process, not to its PID.
func TestFoldUnderReusedPID(t *testing.T) {
	p := New()
	first, second := at(7, 10), at(7, 20)
	p.Apply(batch(&api.Frame{Head: api.Head{Kind: "snapshot"}, Upsert: []api.Process{born(first, nil, "sh"), born(at(8, 11), &first, "cc")}}))
	p.Fold(p.Process(first), true)
	p.Apply(batch(&api.Frame{Head: api.Head{Kind: "diff"}, Remove: []api.Ref{first, at(8, 11)},
		Upsert: []api.Process{born(second, nil, "sh"), born(at(8, 21), &second, "cc")}}))
	if p.Process(second).Folded() {
		t.Error("another process of that number is folded")
	}
	// If the daemon comes back with the same process, its fold is kept.
	p.Apply(batch(&api.Frame{Head: api.Head{Kind: "snapshot"}}))
	p.Apply(batch(&api.Frame{Head: api.Head{Kind: "snapshot"}, Upsert: []api.Process{born(first, nil, "sh"), born(at(8, 11), &first, "cc")}}))
	if !p.Process(first).Folded() {
		t.Error("the process is unfolded after its return")
	}
}

func TestPartialFrames(t *testing.T) {
	b := NewBatch()
	b.Add(&api.Frame{Head: api.Head{Kind: "diff"}, Remove: []api.Ref{at(9, 9)}})
	b.Add(&api.Frame{Head: api.Head{Kind: "snapshot"}, Partial: true, Upsert: []api.Process{born(at(1, 1), nil, "a")}})
	if !b.partial {
		t.Error("half a picture counts as a whole one")
	}
	b.Add(&api.Frame{Head: api.Head{Kind: "heartbeat"}})
	if !b.partial {
		t.Error("a heartbeat ends a picture")
	}
	b.Add(&api.Frame{Head: api.Head{Kind: "diff"}, Upsert: []api.Process{born(at(2, 2), nil, "b")}})
	if b.partial || !b.Reset || len(b.Upsert) != 2 || len(b.Remove) != 0 {
		t.Errorf("partial %t, reset %t, %d, %d", b.partial, b.Reset, len(b.Upsert), len(b.Remove))
	}
}

// TestAge: what is over has its lifetime; a zombie is not over.
func TestAge(t *testing.T) {
	began, over := time.Unix(100, 0), time.Unix(110, 0)
	p := New()
	p.now = api.U64(60 * time.Second)
	for state, want := range map[api.ProcessState]time.Duration{api.StateExited: 10 * time.Second, api.StateZombie: 50 * time.Second, api.StateLive: 50 * time.Second} {
		r := &Row{Kind: ProcessRow, Process: &api.Process{State: state, Started: &began}, start: api.U64(10 * time.Second)}
		if state != api.StateLive {
			r.Process.Exited = &over
		}
		if age := p.Age(r); age != want {
			t.Errorf("%s: %v, want %v", state, age, want)
		}
	}
}
