package panes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func at(seconds float64) *time.Time {
	t := noon.Add(time.Duration(seconds * float64(time.Second)))
	return &t
}

func born(p *api.Process) time.Time { return *p.Started }

func process(pid int, creator int, from, to float64, argv ...string) api.Process {
	p := api.Process{Ref: api.Ref{PID: pid, StartNS: api.U64(pid)}, Session: "s", State: api.StateLive, Comm: argv[0], Argv: argv, Started: at(from)}
	if creator != 0 {
		p.Creator = &api.Ref{PID: creator, StartNS: api.U64(creator)}
	}
	if to >= 0 {
		p.State, p.Exited, p.ExitCode = api.StateExited, at(to), new(0)
	}
	return p
}

// loop is a session of 20 minutes that runs a job every that many seconds.
func loop(every int) (*Timeline, *Labels) {
	p := picture.New()
	b := picture.NewBatch()
	root := process(1, 0, 0, -1, "ci")
	b.Add(&api.Frame{Head: api.Head{Kind: "snapshot"}, Upsert: []api.Process{root},
		Sessions: []api.Session{{ID: "s", State: "active", Started: at(0), Root: &root}}})
	p.Apply(b)
	m := NewTimeline("s")
	tree := &api.Tree{}
	for i := range 1200 / every {
		job := process(10+2*i, 1, float64(every*i), float64(every*i+4), "job")
		tree.Nodes = append(tree.Nodes, api.Node{Process: job}, api.Node{Process: process(11+2*i, job.PID, float64(every*i+1), float64(every*i+2), "cc", "a.c")})
	}
	m.Remember(tree)
	m.SetHeight(10)
	m.Update(p, *at(1200), born)
	return m, &Labels{Theme: *ink.New("mono"), Picture: p, Now: *at(1200), Limit: 80}
}

func bars(line string) int {
	return len(strings.FieldsFunc(ansi.Strip(line), func(r rune) bool { return r != '━' && r != '•' && r != '▶' }))
}

// Repeated runs of one command are one lane, and all of them are on the screen, those
// from the history too.
func TestLanes(t *testing.T) {
	m, l := loop(60)
	lines := m.Lines(l, 100)
	if len(lines) != 4 || !strings.Contains(ansi.Strip(lines[2]), "job ×20") || !strings.Contains(ansi.Strip(lines[3]), "cc a.c ×20") {
		t.Fatalf("%s", strings.Join(lines, "\n"))
	}
	require.Equal(t, bars(lines[2]), 20)
	if !strings.Contains(lines[0], "12:05") || !strings.Contains(lines[0], "12:15") {
		t.Errorf("the axis is %s", lines[0])
	}
	for _, s := range lines {
		if w := ink.Width(s); w != 100 {
			t.Errorf("%d columns: %q", w, s)
		}
	}
}

// Runs with other arguments each time, such as a compiler with its temporary files, are
// one lane; a program run once, or again with the same arguments, is not put there.
func TestLanesOfPrograms(t *testing.T) {
	m, l := loop(600)
	tree := &api.Tree{}
	for i := range 2 {
		job := 10 + 2*i
		tree.Nodes = append(tree.Nodes,
			api.Node{Process: process(100+i, job, float64(600*i+1), float64(600*i+2), "as", fmt.Sprintf("/tmp/%d.s", i))},
			api.Node{Process: process(110+i, job, float64(600*i+2), float64(600*i+3), "as", "b.s")})
	}
	tree.Nodes = append(tree.Nodes, api.Node{Process: process(120, 10, 3, 4, "ld")},
		api.Node{Process: process(121, 1, 5, 6, "git", "add")}, api.Node{Process: process(122, 1, 7, 8, "git", "push")})
	m.Remember(tree)
	m.Update(l.Picture, *at(1200), born)
	var names []string
	for i := range m.lanes {
		line := l.Line(30)
		m.name(l, line, &m.lanes[i], 30)
		names = append(names, strings.Join(strings.Fields(ansi.Strip(line.String()))[1:], " "))
	}
	want := []string{"1 ci", "job ×2", "cc a.c ×2", "as ×2", "as b.s ×2", "120 ld", "121 git add", "122 git push"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// Short ones that do not fit are one lane, and are apart again where the shown time is short.
func TestShortLanes(t *testing.T) {
	m, l := loop(600)
	tree := &api.Tree{}
	for i := range 30 {
		tree.Nodes = append(tree.Nodes, api.Node{Process: process(100+i, 1, float64(100+i), float64(101+i), fmt.Sprint("pyenv-", i))})
	}
	m.Remember(tree)
	m.SetHeight(10)
	m.Update(l.Picture, *at(1200), born)
	lines := ansi.Strip(strings.Join(m.Lines(l, 100), "\n"))
	if len(m.lanes) != 3 || strings.Count(lines, "under 1 % each ×32") != 1 {
		t.Errorf("%d lanes:\n%s", len(m.lanes), lines)
	}
	for range 5 {
		m.Zoom(true, born)
	}
	m.Update(l.Picture, *at(1200), born)
	require.Equal(t, len(m.lanes), 33)
}

// A creator is older: of two processes that name each other the older is a root, and both have a lane.
func TestYoungerCreator(t *testing.T) {
	m, l := loop(600)
	m.Remember(&api.Tree{Nodes: []api.Node{{Process: process(200, 201, 1, 2, "older")}, {Process: process(201, 200, 1, 2, "younger")}}})
	m.Update(l.Picture, *at(1200), born)
	depths := map[string]int{}
	for i := range m.lanes {
		depths[m.lanes[i].last().Comm] = m.lanes[i].depth
	}
	older, found := depths["older"]
	if !found || older != 0 || depths["younger"] != 1 {
		t.Errorf("lanes at %v", depths)
	}
}

func TestZoomAndPan(t *testing.T) {
	m, l := loop(10)
	span := func() time.Duration { from, to := m.Span(); return to.Sub(from) }
	m.Move(1)
	for range 5 {
		m.Zoom(true, born)
	}
	require.Equal(t, span(), 1200*time.Second/32)
	from, to := m.Span()
	if last := at(1190); last.Before(from) || last.After(to) {
		t.Errorf("the selected lane's last process is not in %v to %v", from, to)
	}
	if n := bars(m.Lines(l, 100)[2]); n < 3 || n > 5 {
		t.Errorf("%d bars in %v", n, span())
	}
	m.Pan(false)
	if earlier, _ := m.Span(); !earlier.Equal(from.Add(-span() / 4)) {
		t.Errorf("from %v to %v", from, earlier)
	}
	for range 200 {
		m.Pan(false)
	}
	if from, _ := m.Span(); !from.Equal(noon) {
		t.Errorf("before the session: %v", from)
	}
	for range 100 {
		m.Zoom(true, born)
	}
	if span() < leastSpan {
		t.Errorf("shows %v", span())
	}
	m.Whole()
	require.Equal(t, span(), 1200*time.Second)
}

// A view that ends at the present keeps following it.
func TestFollowsThePresent(t *testing.T) {
	m, l := loop(10)
	m.Zoom(true, born)
	for range 4 {
		m.Pan(true)
	}
	m.Update(l.Picture, *at(1300), born)
	if _, to := m.Span(); !to.Equal(*at(1300)) {
		t.Errorf("up to %v", to)
	}
	m.Pan(false)
	_, before := m.Span()
	m.Update(l.Picture, *at(1400), born)
	if _, to := m.Span(); !to.Equal(before) {
		t.Errorf("the past moves from %v to %v", before, to)
	}
}

func TestBound(t *testing.T) {
	m, l := loop(10)
	tree := &api.Tree{}
	for i := range most {
		tree.Nodes = append(tree.Nodes, api.Node{Process: process(1000+i, 1, float64(i)/100, float64(i)/100, fmt.Sprint("x", i%50))})
	}
	m.Remember(tree)
	m.Update(l.Picture, *at(1200), born)
	if len(m.known) != most || m.known[api.Ref{PID: 1, StartNS: 1}] == nil {
		t.Errorf("%d are remembered", len(m.known))
	}
}

// The selected lane stays selected.
func TestSelection(t *testing.T) {
	m, l := loop(10)
	m.Move(2)
	want, _ := m.Selected()
	early := process(5, 1, 0, 1, "aaa")
	m.Remember(&api.Tree{Nodes: []api.Node{{Process: early}}})
	m.Update(l.Picture, *at(1201), born)
	if got, _ := m.Selected(); got != want {
		t.Errorf("selected %v, was %v", got, want)
	}
}
