package panes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// called is a process of the session that a call started, which ended then; 0: not yet.
func called(pid int, id, tool string, from, to, ended float64) api.Process {
	p := process(pid, 1, from, to, "sh")
	c := api.Call{ID: id, Tool: tool, Agent: &api.Ref{PID: 1, StartNS: 1}, Began: at(from - 1), Claimed: true}
	if ended > 0 {
		c.Ended = at(ended)
	}
	p.Calls = []api.Call{c}
	return p
}

// Each call has a lane above those of the processes, from its beginning to its end.
func TestLanesOfCalls(t *testing.T) {
	m, l := loop(600)
	m.Remember(&api.Tree{Nodes: []api.Node{
		{Process: called(50, "toolu_01Rx7LwCd4", "Bash", 601, -1, 0)},
		{Process: called(51, "toolu_01Qm5KvAb3", "Read", 1, 100, 300)},
		{Process: called(52, "toolu_01Rx7LwCd4", "Bash", 700, 701, 0)},
	}})
	m.Update(l.Picture, *at(1200), born)
	lines := m.Lines(l, 100)
	for i, want := range []string{"⟨Read toolu_01Qm5KvAb3⟩", "⟨Bash toolu_01Rx7LwCd4⟩"} {
		name, bar, _ := strings.Cut(ansi.Strip(lines[1+i]), "⟩")
		require.Equal(t, strings.TrimSpace(name)+"⟩", want)
		from, to := strings.Index(bar, "─"), strings.LastIndexAny(bar, "─▶")
		if share := float64(len([]rune(bar[from:to]))) / 60; from < 0 || share < 0.2+0.2*float64(i) || share > 0.3+0.3*float64(i) {
			t.Errorf("%s is open for %v of the time: %s", want, share, bar)
		}
		if now := strings.HasSuffix(bar, "▶"); now != (i == 1) {
			t.Errorf("%s is open: %t", want, now)
		}
	}
	require.Contains(t, ansi.Strip(lines[3]), "1 ci")
	if !strings.HasPrefix(m.Note(), "2 calls, 8 processes in ") {
		t.Errorf("%s", m.Note())
	}
	m.Move(-len(m.lanes))
	if ref, _ := m.Selected(); ref.PID != 51 {
		t.Errorf("the first process of the call is %v", ref)
	}
	if narrow := ansi.Strip(m.Lines(l, 50)[2]); !strings.HasPrefix(narrow, " ⟨Bash …Cd4⟩") {
		t.Errorf("%q", narrow)
	}
}

// That a call has ended is known from any of its processes, and asked for until then.
func TestEndOfACall(t *testing.T) {
	m, l := loop(600)
	require.Equal(t, m.Open(100), false)
	m.Remember(&api.Tree{Nodes: []api.Node{{Process: called(50, "a", "Bash", 601, 602, 0)}, {Process: called(51, "a", "Bash", 603, 604, 0)}}})
	require.Equal(t, m.Open(100), true)
	require.Equal(t, m.Open(2), false)
	m.Remember(&api.Tree{Nodes: []api.Node{{Process: called(51, "a", "Bash", 603, 604, 700)}}})
	m.Remember(&api.Tree{Nodes: []api.Node{{Process: called(50, "a", "Bash", 601, 602, 0)}}})
	m.Update(l.Picture, *at(1200), born)
	if line := ansi.Strip(m.Lines(l, 100)[1]); m.Open(100) || strings.Contains(line, "▶") {
		t.Errorf("open: %s", line)
	}
}

// Of many calls those of one tool share a lane, so that the processes are not far below.
func TestManyCalls(t *testing.T) {
	m, l := loop(600)
	tree := &api.Tree{}
	for i := range 40 {
		tool := []string{"Bash", "Read"}[i%2]
		tree.Nodes = append(tree.Nodes, api.Node{Process: called(50+i, fmt.Sprint("toolu_", i), tool, float64(20+25*i), float64(21+25*i), float64(22+25*i))})
	}
	m.Remember(tree)
	m.Update(l.Picture, *at(1200), born)
	lines := m.Lines(l, 100)
	for i, want := range []string{"⟨Bash⟩ 20 calls", "⟨Read⟩ 20 calls", "1 ci"} {
		require.Contains(t, ansi.Strip(lines[1+i]), want)
	}
	m.Move(-len(m.lanes))
	want, _ := m.Selected()
	m.Zoom(true, born)
	m.Update(l.Picture, *at(1201), born)
	if got, _ := m.Selected(); got != want || got.PID != 88 {
		t.Errorf("selected %v, was %v", got, want)
	}
}

// A failure and an end by us are marked where they happened: a colour is not all that
// tells them from what went well.
func TestMarks(t *testing.T) {
	m, l := loop(600)
	failed, killed, short := process(50, 1, 10, 300, "bad"), process(51, 1, 10, 400, "killed"), process(52, 1, 700, 700, "short")
	failed.ExitCode, killed.ExitCode, killed.Signal, short.ExitCode = new(3), nil, "SIGKILL", new(1)
	again := process(53, 1, 300, 400, "bad")
	m.Remember(&api.Tree{Nodes: []api.Node{{Process: failed}, {Process: killed}, {Process: short}, {Process: again}}})
	m.Update(l.Picture, *at(1200), born)
	want := map[string]string{"bad": "━×━", "killed": "━× ", "short": " × ", "job": "• "}
	for _, line := range m.Lines(l, 100) {
		line = ansi.Strip(line)
		for name, mark := range want {
			if _, bar, found := strings.Cut(line, " "+name); found {
				delete(want, name)
				if !strings.Contains(bar, mark) || name == "job" && strings.Contains(bar[8:], "×") {
					t.Errorf("%s", line)
				}
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no lanes of %v", want)
	}
	if legend := ansi.Strip(TimelineLegend(l, 100)); !strings.HasPrefix(legend, " × failed  ⚑ ended by us  ━ exited ") {
		t.Errorf("%s", legend)
	}
	require.Equal(t, ansi.Strip(TimelineLegend(l, 20)), " × failed ")
	require.Equal(t, TimelineLegend(l, 3), "")
}
