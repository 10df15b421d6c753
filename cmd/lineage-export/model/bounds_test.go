package model

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// reachable are the images of a model, and the bytes of their programs. What several images share counts once.
func reachable(m *Model) (images int, text int64) {
	seen := make(map[*record.Image]bool)
	for _, p := range m.processes {
		for i := p.Image; i != nil && !seen[i]; i = i.Creator {
			if seen[i] = true; !copied(i) {
				text += size(i)
			}
		}
	}
	return len(seen), text
}

// TestHostileChains: chains of dead programs with long command lines, each with a live process at its end.
func TestHostileChains(t *testing.T) {
	const chains, length = 1000, 100
	w, m := newWorld()
	for n := range chains {
		last := root
		for k := range length {
			next := w.fork(last)
			w.exec(next)
			w.events[len(w.events)-1].Process.Argv = []string{strings.Repeat("x", 1000)}
			if k > 0 {
				w.exit(last, 0)
			}
			last = next
		}
		w.live = nil
		w.feed(m)
		if p := m.processes[last]; p.Image.Creator == nil || p.Image.Creator.Creator == nil {
			t.Fatalf("chain %d has no creators", n)
		}
	}
	images, text := reachable(m)
	t.Logf("%d images, %d KiB of text", images, text>>10)
	if most := maxImages + 3*(maxDead+chains); images > most {
		t.Errorf("%d images are remembered, want at most %d", images, most)
	}
	if most := int64(maxText + shortArgv*images + 1<<20); text > most {
		t.Errorf("%d bytes of programs are remembered, want at most %d", text, most)
	}
	m.processes, m.dead = nil, nil
	deadline := time.Now().Add(20 * time.Second)
	for runtime.GC(); m.held.images.Load() > 0 || m.held.text.Load() > 0; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d images and %d bytes are counted of an empty model", m.held.images.Load(), m.held.text.Load())
		}
		time.Sleep(time.Millisecond) // the collector counts down in the background
	}
}

// TestHostileFork: live processes are bounded, too.
func TestHostileFork(t *testing.T) {
	w, m := newWorld()
	parent := w.fork(root)
	for range maxProcesses + 10 {
		w.fork(parent)
		w.feed(m)
	}
	require.Equal(t, len(m.processes), maxProcesses)
	w.exit(parent, 0)
	w.feed(m)
	last := w.fork(parent)
	w.feed(m)
	if m.processes[last] == nil {
		t.Error("a process that exited leaves no room")
	}
}

// TestMarks: what is remembered of ports and parents is bounded for each process and for all, and
// processes that are gone leave room. A mark has no copy of its process.
func TestMarks(t *testing.T) {
	w, m := newWorld()
	listen := func() (p api.Ref) {
		p = w.fork(root)
		for range record.MaxMarks + 1 {
			w.event("listen", p, func(e *api.Event) { e.Port = &api.Port{Proto: "tcp", Addr: "::", Port: 80} })
		}
		return p
	}
	count := func() (n int) {
		for _, p := range m.processes {
			n += len(p.marks)
		}
		return n
	}
	for range maxMarks/record.MaxMarks + 10 {
		listen()
		w.feed(m)
	}
	last := m.processes[w.live[len(w.live)-1]]
	if n := count(); n != maxMarks || m.marks != n || len(last.marks) != 0 || last.dropped != record.MaxMarks+1 {
		t.Errorf("%d marks are remembered and %d counted; the last process has %d and %d dropped ones", n, m.marks, len(last.marks), last.dropped)
	}
	for i, p := range slices.Clone(w.live) {
		if i%2 == 0 {
			w.exec(p)
		}
		w.exit(p, 0)
		w.event("listen", p, nil) // too late
	}
	w.feed(m)
	if n := count(); n != 0 || m.marks != 0 {
		t.Errorf("%d marks of dead processes are remembered, %d counted", n, m.marks)
	}
	p := listen()
	w.feed(m)
	if n := len(m.processes[p].marks); n != record.MaxMarks || m.processes[p].marks[0].Process != nil {
		t.Errorf("%d marks of a later process, of %v", n, m.processes[p].marks[0].Process)
	}
}

// TestCallsShared: the descendants of a tool call have one list of calls in memory, after a restart, too.
func TestCallsShared(t *testing.T) {
	w := &world{}
	tool := w.fork(root)
	for range 10 {
		w.fork(tool)
	}
	for _, e := range w.events {
		e.Process.Calls = []api.Call{{ID: "a", Agent: &api.Ref{PID: 1, StartNS: 1}}, {ID: "b"}}
	}
	m := New(here, "boot", w)
	for _, e := range w.copied() {
		m.Apply(e)
	}
	lists := func(m *Model) int {
		all := make(map[*api.Call]bool)
		for _, p := range m.processes {
			if len(p.Calls) > 0 { // not the session's root
				all[&p.Calls[0]] = true
			}
		}
		return len(all)
	}
	require.Equal(t, lists(m), 1)
	if m, _ = restarted(t, m, w); lists(m) != 1 {
		t.Errorf("after a restart %d lists", lists(m))
	}
}

// TestForksShare: forks without an exec have their creator's command line, in memory and on disk.
func TestForksShare(t *testing.T) {
	w, m := newWorld()
	shell := w.fork(root)
	w.exec(shell)
	w.events[len(w.events)-1].Process.Argv = []string{"sh", strings.Repeat("x", 900)}
	for range 100 {
		w.fork(shell)
	}
	w.feed(m)
	m, file := restarted(t, m, w)
	if n := strings.Count(file, strings.Repeat("x", 900)); n != 1 {
		t.Errorf("the command line is in the file %d times", n)
	}
	lines := make(map[*string]bool)
	for _, ref := range w.live {
		i := m.processes[ref].Image
		if len(i.Argv) != 2 || i.Exe == "" {
			t.Fatalf("%+v", i)
		}
		lines[&i.Argv[0]] = true
	}
	require.Equal(t, len(lines), 1)
}

// TestSessionBounded: of a session nothing is remembered that members make long.
func TestSessionBounded(t *testing.T) {
	d := &api.Session{ID: "aaaaaa", Ports: make([]int, 9), Brokered: make([]api.Brokered, 9), Degraded: make([]string, 9),
		Root: &api.Process{Argv: []string{strings.Repeat("x", 4000)}}}
	s := bounded(d)
	if len(s.Ports)+len(s.Brokered)+len(s.Degraded) != 0 || len(s.Root.Argv[0]) > record.MaxArgv || !s.Root.ArgvTruncated {
		t.Errorf("%+v", s)
	}
	if len(d.Root.Argv[0]) != 4000 {
		t.Error("the source's session was changed")
	}
}
