package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
	"github.com/lineage-ebpf/lineage/internal/require"
)

var (
	began = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	here  = &record.Host{ID: "host", Name: "host"}
	root  = api.Ref{PID: 1, StartNS: 1} // of the session
)

// world is a source, and makes events.
type world struct {
	now    uint64 // ns since began, and boottime
	events []*api.Event
	live   []api.Ref
	next   int
	asked  int // how many trees were requested
}

func (w *world) Session(id string) (*api.Session, error) {
	return &api.Session{ID: id, Name: "name", Started: new(began), Root: &api.Process{Ref: api.Ref{PID: 1, StartNS: 1}, Comm: "root", Session: id, Started: new(began)}}, nil
}
func (w *world) Tree(string) []api.Node { w.asked++; return nil }
func (w *world) Redact(argv []string) []string {
	return slices.Clone(argv)
}

func (w *world) event(typ api.EventType, ref api.Ref, change func(*api.Event)) *api.Event {
	w.now += uint64(time.Millisecond)
	e := &api.Event{Head: api.Head{Kind: "event"}, Type: typ, Seq: api.U64(len(w.events) + 1), TimeNS: api.U64(w.now), Time: new(began.Add(time.Duration(w.now))),
		Session: "aaaaaa", Process: &api.Process{Ref: ref, Session: "aaaaaa"}}
	if change != nil {
		change(e)
	}
	w.events = append(w.events, e)
	return e
}

func (w *world) fork(creator api.Ref) api.Ref {
	w.next++
	ref := api.Ref{PID: 100 + w.next%50, StartNS: api.U64(w.now + uint64(time.Millisecond))}
	w.event("fork", ref, func(e *api.Event) {
		e.Process.Creator, e.Process.Parent, e.Process.Comm, e.Process.Started = &creator, &creator, "fork", e.Time
	})
	w.live = append(w.live, ref)
	return ref
}

func (w *world) exec(ref api.Ref) {
	w.event("exec", ref, func(e *api.Event) {
		e.Process.Exe, e.Process.Comm, e.Process.Argv = fmt.Sprintf("/bin/x%d", w.next), "x", []string{"x", "--y"}
	})
}

func (w *world) exit(ref api.Ref, code int) {
	w.event("exit", ref, func(e *api.Event) { e.Process.ExitCode, e.Process.Exited = &code, e.Time })
	w.live = slices.DeleteFunc(w.live, func(r api.Ref) bool { return r == ref })
}

func (w *world) end() {
	w.event("session", api.Ref{}, func(e *api.Event) { e.Process, e.State, e.Reason = nil, api.StateEnded, "end" })
}

// feed applies the events so far, forgets them, and returns their records.
func (w *world) feed(m *Model) (all []*record.Record) {
	for _, e := range w.events {
		all = append(all, m.Apply(e)...)
	}
	w.events = w.events[:0]
	return all
}

// newWorld is a world without events, and a model of it.
func newWorld() (*world, *Model) {
	w := &world{}
	return w, New(here, "boot", w)
}

// restarted is the model that another exporter loads, and the file in between.
func restarted(t require.T, m *Model, from Source) (again *Model, file string) {
	var b bytes.Buffer
	require.NoError(t, m.Save(&b))
	file = b.String()
	again, err := Load(&b, here, from)
	require.NoError(t, err)
	return again, file
}

// copied is the events as another reader gets them.
func (w *world) copied() (all []*api.Event) {
	for _, e := range w.events {
		b, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		c := new(api.Event)
		if err := json.Unmarshal(b, c); err != nil {
			panic(err)
		}
		all = append(all, c)
	}
	return all
}

// spans are the spans that records end, as text, with their places in the trace.
func spans(all []*record.Record) (texts []string) {
	for _, r := range all {
		for _, run := range r.Ended {
			texts = append(texts, fmt.Sprintf("%v %s %v %v %v-%v code %v %v %v marks %d+%d", run.Image.Ref, run.Image.Exe, run.Span, run.Running,
				run.Image.Began.Sub(began), run.Until.Sub(began), run.ExitCode != nil && *run.ExitCode == 0, run.Signal, run.Opened, len(run.Marks), run.Dropped))
		}
		if r.Kind == record.End || r.Kind == record.Open && r.Process == nil {
			texts = append(texts, fmt.Sprintf("session %s %v %s %v", r.Session.ID, r.Session.Span, r.Kind, r.Session.Opened))
		}
	}
	slices.Sort(texts)
	return texts
}

// drawn is a session of random processes.
func drawn(t *rapid.T) *world {
	w := &world{live: []api.Ref{root}}
	for range rapid.IntRange(1, 60).Draw(t, "events") {
		if len(w.live) == 0 {
			break
		}
		p := rapid.SampledFrom(w.live).Draw(t, "process")
		switch rapid.IntRange(0, 6).Draw(t, "what") {
		case 0, 1, 2:
			w.fork(p)
		case 3:
			w.exec(p)
		case 4:
			w.event("listen", p, func(e *api.Event) { e.Port = &api.Port{Proto: "tcp", Addr: "::", Port: 80} })
		case 5:
			w.exit(p, rapid.IntRange(0, 1).Draw(t, "code"))
		case 6:
			w.now += uint64(rapid.IntRange(0, 90).Draw(t, "seconds")) * uint64(time.Second)
		}
	}
	w.end()
	return w
}

// TestRestart: a model that is saved and loaded anywhere, under any clock, gives the same records
// and spans as one that ran without a break. So a record that is delivered twice is the same.
func TestRestart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawn(t)
		var whole, parts []*record.Record
		m := New(here, "boot", w)
		for _, e := range w.copied() {
			whole = append(whole, m.Apply(e)...)
		}
		m = New(here, "boot", w)
		for i, e := range w.copied() {
			parts = append(parts, m.Apply(e)...)
			if rapid.IntRange(0, 4).Draw(t, "tick") == 0 {
				parts = append(parts, slices.Collect(m.Tick(*w.events[i].Time))...)
			}
			if rapid.IntRange(0, 4).Draw(t, "restart") == 0 {
				m, _ = restarted(t, m, w)
			}
		}
		if a, b := spans(whole), spans(parts); !slices.Equal(a, b) {
			t.Fatalf("without a break:\n%q\nwith breaks:\n%q", a, b)
		}
	})
}

// TestParents: every span has its parent in the same trace, and no two have the same name.
func TestParents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawn(t)
		m := New(here, "boot", w)
		known, parents := map[record.Trace]bool{}, map[record.Trace]string{}
		add := func(s record.Span, closes bool, what string) {
			if closes {
				s.Parent, s.SpanID = s.SpanID, record.ClosingSpan(s.SpanID)
			}
			if known[s.Trace] {
				t.Fatalf("%s: a second span %v", what, s.Trace)
			}
			known[s.Trace] = true
			if s.Parent != (record.SpanID{}) {
				parents[record.Trace{TraceID: s.TraceID, SpanID: s.Parent}] = what
			}
		}
		for _, e := range w.copied() {
			for _, r := range m.Apply(e) {
				for _, run := range r.Ended {
					add(run.Span, run.Opened, run.Image.Ref.String())
				}
				if r.Kind == record.End || r.Kind == record.Open && r.Process == nil {
					add(r.Session.Span, r.Kind == record.End && r.Session.Opened, "session")
				}
			}
		}
		for p, child := range parents {
			if !known[p] {
				t.Errorf("the parent of %s did not come", child)
			}
		}
		if len(m.processes) != len(m.dead) {
			t.Errorf("%d processes are remembered as live", len(m.processes)-len(m.dead))
		}
	})
}

// TestEndedIsNotOpened: a session that has ended within a minute is not reported as running later.
func TestEndedIsNotOpened(t *testing.T) {
	w, m := newWorld()
	w.exit(w.fork(root), 0)
	w.end()
	w.feed(m)
	if late := slices.Collect(m.Tick(began.Add(2 * record.OpenAfter))); len(late) > 0 {
		t.Errorf("%d records, the first is of kind %s", len(late), late[0].Kind)
	}
}

// TestChain: memory is bounded for processes that fork a successor and exit.
func TestChain(t *testing.T) {
	w, m := newWorld()
	last := root
	for range 20000 {
		next := w.fork(last)
		w.exit(last, 0)
		w.live = nil
		w.feed(m)
		last = next
	}
	p := m.processes[last]
	if n := len(p.Image.Ancestry()); n != record.MaxAncestry {
		t.Errorf("%d ancestors", n)
	}
	known := 0
	for i := p.Image; i != nil; i = i.Creator {
		known++
	}
	if known > 2*record.MaxAncestry+1 || len(m.processes) > maxDead+1 {
		t.Errorf("%d images and %d processes are remembered", known, len(m.processes))
	}
}

// TestSiblings: all children of a process deep in a chain share its creators.
func TestSiblings(t *testing.T) {
	w, m := newWorld()
	last := root
	for range 3 * record.MaxAncestry {
		last = w.fork(last)
	}
	for range 1000 {
		w.fork(last)
	}
	w.feed(m)
	if images, _ := reachable(m); images > len(w.live)+4*record.MaxAncestry {
		t.Errorf("%d images for %d processes", images, len(w.live))
	}
}

// TestFolded: fork and exec are one program, unless something was done in between.
func TestFolded(t *testing.T) {
	w, m := newWorld()
	plain, busy := w.fork(root), w.fork(root)
	w.exec(plain)
	child := w.fork(busy)
	w.exec(busy)
	w.exit(child, 0)
	w.exit(plain, 0)
	w.exit(busy, 0)
	count := map[api.Ref]int{}
	for _, r := range w.feed(m) {
		for _, run := range r.Ended {
			count[run.Image.Ref]++
		}
	}
	if count[plain] != 1 || count[busy] != 2 || count[child] != 1 {
		t.Errorf("spans: %d of fork and exec, %d of one that forked before its exec, %d of one without an exec", count[plain], count[busy], count[child])
	}
}

// TestClaim: the trace that an agent claims applies to its tool and everything below it, and to nothing else.
func TestClaim(t *testing.T) {
	w, m := newWorld()
	tool, other := w.fork(root), w.fork(root)
	w.exec(tool)
	w.events[len(w.events)-1].Process.Trace = &api.Trace{TraceID: "0123456789abcdef0123456789abcdef", SpanID: "0123456789abcdef", From: tool, Claimed: true}
	below := w.fork(tool)
	w.exit(below, 0)
	w.exit(tool, 0)
	w.exit(other, 0)
	got := map[api.Ref]record.Span{}
	for _, r := range w.feed(m) {
		for _, run := range r.Ended {
			got[run.Image.Ref] = run.Span
		}
	}
	session := record.SessionTrace("host", "boot", "aaaaaa")
	if s := got[tool]; s.TraceID.String() != "0123456789abcdef0123456789abcdef" || s.Parent.String() != "0123456789abcdef" {
		t.Errorf("the tool: %+v", s)
	}
	if s := got[below]; s.TraceID != got[tool].TraceID || s.Parent != got[tool].SpanID {
		t.Errorf("below the tool: %+v", s)
	}
	if s := got[other]; s.TraceID != session {
		t.Errorf("beside the tool: %+v", s)
	}
}

// TestLoad: a file that is not a model is an error, never a panic.
func TestLoad(t *testing.T) {
	const first, image, process = `{"model":{"boot":"b"}}`, `{"image":{}}`, `{"process":{"Image":0}}`
	long := `{"image":{"Exe":"` + strings.Repeat("x", maxLine) + `"}}`
	for _, lines := range [][]string{
		{}, {"{"}, {first}, {image, `{"lines":1}`}, {first, first, `{"lines":2}`}, {first, image, `{"lines":1}`}, {first, `{"lines":1}`, image}, {first, "{}", `{"lines":2}`},
		{first, `{"image":{"Creator":1}}`, `{"lines":2}`}, {first, `{"image":{"Creator":-1}}`, `{"lines":2}`}, {first, `{"process":{"Image":0}}`, `{"lines":2}`},
		{first, image, `{"process":{"Image":-1}}`, `{"lines":3}`}, {first, image, `{"process":{"Image":1}}`, `{"lines":3}`}, {first, long, `{"lines":2}`},
	} {
		if _, err := Load(strings.NewReader(strings.Join(lines, "\n")), here, &world{}); err == nil {
			t.Errorf("%.200q: no error", lines)
		}
	}
	m, err := Load(strings.NewReader(strings.Join([]string{first, image, process, `{"lines":3}`}, "\n")), here, &world{})
	if err != nil || m.Boot() != "b" || len(m.processes) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestCut: of a long command line its beginning is remembered, and nothing else is kept in memory.
func TestCut(t *testing.T) {
	long := strings.Repeat("é", record.MaxArgv)
	for _, c := range []struct {
		argv, want []string
		cut        bool
	}{
		{[]string{"make", "-j8"}, []string{"make", "-j8"}, false},
		{[]string{long}, []string{long[:record.MaxArgv-2]}, true},
		{[]string{"sh", "-c", long, "x"}, []string{"sh", "-c", long[:record.MaxArgv-8]}, true},
		{slices.Repeat([]string{""}, 4000), slices.Repeat([]string{""}, maxArgs), true},
	} {
		got, truncated := cut(c.argv, record.MaxArgv, false)
		if !slices.Equal(got, c.want) || truncated != c.cut {
			t.Errorf("%d arguments, the last of %d bytes, truncated %v; want %d and %d", len(got), len(got[max(len(got)-1, 0):]), truncated, len(c.want), len(c.want[len(c.want)-1]))
		}
		if c.cut && cap(got) > len(got)+len(got)/4+8 {
			t.Errorf("%d arguments are kept of %d", cap(got), len(got))
		}
	}
}

// TestTreeAgain: the tree of a session is asked for once, and again after events were lost.
func TestTreeAgain(t *testing.T) {
	w := &world{}
	m := New(&record.Host{ID: "host"}, "boot", w)
	unknown := func(pid int) { m.Apply(w.event(api.EventReparent, api.Ref{PID: pid, StartNS: 5}, nil)) }
	unknown(50)
	unknown(51)
	require.Equal(t, w.asked, 1)
	m.Apply(&api.Event{Type: api.EventLost})
	unknown(52)
	unknown(53)
	require.Equal(t, w.asked, 2)
}
