package html

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func kept(events []api.Event, nodes []api.Node) *apitest.Client {
	return &apitest.Client{Has: apitest.Has{
		Sessions: []api.Session{{ID: "k3x9q2"}},
		Trees:    map[string]*api.Tree{"k3x9q2": {Nodes: nodes}},
		Events:   events,
		Policy:   &api.Policy{Items: []api.PolicyValue{{Key: "redact.0", Value: "hunter[0-9]"}, {Key: "mode", Value: "observe"}}},
	}}
}

// TestHistory: dropped events of the session become a gap, of which the page speaks, and its known
// processes are shown; dropped events of other sessions do not.
func TestHistory(t *testing.T) {
	at := func(seconds uint64) api.Event {
		return api.Event{TimeNS: api.U64(seconds * second), Time: wall(seconds * second)}
	}
	event := func(seconds uint64, kind api.EventType, p *api.Process) api.Event {
		ev := at(seconds)
		ev.Type, ev.Process, ev.Session = kind, p, "k3x9q2"
		return ev
	}
	process := func(pid int, from, to uint64) api.Node {
		n := api.Node{Process: api.Process{Ref: api.Ref{PID: pid, StartNS: api.U64(from * second)}, Comm: "p", Started: wall(from * second),
			State: api.StateExited, Exited: wall(to * second), ExitCode: new(0), Argv: []string{"p", "hunter2"}}}
		if pid != 100 {
			n.Creator = &api.Ref{PID: pid - 1, StartNS: api.U64((from - 1) * second)}
		}
		return n
	}
	// A chain of three, in which the first is dead and the second alive when the
	// remaining events begin.
	nodes := []api.Node{process(102, 1012, 1013), process(101, 1011, 1030), process(100, 1010, 1015)}
	old := api.Event{Type: "lost", Where: "history", Time: wall(1020 * second)}
	opened := at(1000)
	opened.Type, opened.State, opened.Session = "session", api.StateActive, "k3x9q2"
	born := event(1000, "fork", &api.Process{Ref: api.Ref{PID: 100, StartNS: 900 * second}, Comm: "sh", Evidence: &api.Evidence{Kind: "root"}})
	late := api.Process{Ref: api.Ref{PID: 103, StartNS: 1025 * second}, Creator: new(nodes[1].Ref), Comm: "late"}
	lateNode := process(103, 1025, 1031)
	for name, tt := range map[string]struct {
		daemon    *apitest.Client
		processes int
		gap       string
	}{
		"whole":               {kept([]api.Event{opened, event(1025, "fork", &late)}, nil), 1, ""},
		"others were dropped": {kept([]api.Event{old, opened, event(1025, "fork", &late)}, nil), 1, ""},
		"its root was born":   {kept([]api.Event{old, born, event(1025, "fork", &late)}, nil), 2, ""},
		"its beginning is gone": {kept([]api.Event{old, event(1025, "fork", &late), event(1030, "exit", &nodes[1].Process)},
			append(nodes, lateNode)), 4, "events missing: history"},
		"all of it is gone": {kept([]api.Event{old}, nodes), 3, "events are missing: history"},
	} {
		ended := *wall(1040 * second)
		p, err := History(t.Context(), tt.daemon, &api.Session{ID: "k3x9q2", Started: &began, Ended: &ended})
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, p.Write(&out, &api.Report{Verdict: api.VerdictClean}))
		page := out.String()
		require.Contains(t, page, fmt.Sprintf("All %s,", display.Count(tt.processes, "process", "processes")), tt.gap)
		if gaps := tt.gap != ""; strings.Contains(page, "does not have all events") != gaps || strings.Contains(page, "missing") != gaps {
			t.Errorf("%s: it speaks of gaps, or not\n%s", name, page)
		}
		if strings.Contains(page, "hunter2") || tt.processes > 2 && !strings.Contains(page, "[redacted]") {
			t.Errorf("%s: a secret is in\n%s", name, page)
		}
		if q := tt.daemon.Got.Events[0]; q.Since.After(began) || q.Until.Before(ended) {
			t.Errorf("%s: asked for %+v", name, q)
		}
		if tt.processes == 4 {
			if c := p.members.all[late.Ref].creator; c == nil || c.Ref != nodes[1].Ref {
				t.Errorf("%s: a dead creator is lost: %+v", name, c)
			}
		}
	}
	s := &api.Session{ID: "k3x9q2"}
	if opens(&api.Session{ID: "nested"}, &opened) || !opens(s, &opened) {
		t.Error("another session begins with it, or this one not")
	}
	if _, err := History(t.Context(), kept([]api.Event{opened, {Head: api.NewHead("end"), Reason: "stopping"}}, nil), s); err == nil {
		t.Error("a history that broke off is whole")
	}
	if err := Save(t.Context(), kept([]api.Event{opened}, nil), s, "/dev/full"); err == nil {
		t.Error("a page is written to a full disk")
	}
}
