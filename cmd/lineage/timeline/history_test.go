package timeline

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage/perfetto"
	"github.com/lineage-ebpf/lineage/cmd/lineage/perfetto/perfettotest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const second = 1e9

// began is when the session of a test began, at boottime 1000 s.
var began = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func wall(at uint64) *time.Time {
	return new(began.Add(time.Duration(int64(at) - 1000*second)))
}

// kept is a daemon that has the history of a session.
func kept(events []api.Event, nodes []api.Node) *apitest.Client {
	return &apitest.Client{Has: apitest.Has{
		Sessions: []api.Session{{ID: "k3x9q2"}},
		Trees:    map[string]*api.Tree{"k3x9q2": {Nodes: nodes}},
		Events:   events,
		Report:   &api.Report{Verdict: api.VerdictClean},
		Policy:   &api.Policy{Items: []api.PolicyValue{{Key: "redact.0", Value: "hunter[0-9]"}, {Key: "mode", Value: "observe"}}},
	}}
}

// TestHistory: dropped events of the session become a gap, and its known processes are
// shown; dropped events of other sessions do not.
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
		gaps      string
	}{
		"whole":                 {kept([]api.Event{opened, event(1025, "fork", &late)}, nil), 1, ""},
		"others were dropped":   {kept([]api.Event{old, opened, event(1025, "fork", &late)}, nil), 1, ""},
		"its root was born":     {kept([]api.Event{old, born, event(1025, "fork", &late)}, nil), 2, ""},
		"its beginning is gone": {kept([]api.Event{old, event(1025, "fork", &late), event(1030, "exit", &nodes[1].Process)}, append(nodes, lateNode)), 4, "events missing: history"},
		"all of it is gone":     {kept([]api.Event{old}, nodes), 3, "events missing: history"},
	} {
		var out bytes.Buffer
		ended := *wall(1040 * second)
		require.NoError(t, history(t.Context(), tt.daemon, &api.Session{ID: "k3x9q2", Started: &began, Ended: &ended}, &out, With(perfetto.New)))
		r := perfettotest.Decode(t, out.Bytes())
		if r.Processes != tt.processes || strings.Join(r.Gaps, ",") != tt.gaps || r.Marks["receipt: clean"] != 1 {
			t.Errorf("%s: %d processes, want %d; gaps %q, marks %v\n%s", name, r.Processes, tt.processes, r.Gaps, r.Marks, r.Text())
		}
		if strings.Contains(r.Text(), "hunter2") || tt.processes > 2 && !strings.Contains(r.Text(), "[redacted]") {
			t.Errorf("%s: a secret is in\n%s", name, r.Text())
		}
		if q := tt.daemon.Got.Events[0]; q.Since.After(began) || q.Until.Before(ended) {
			t.Errorf("%s: asked for %+v", name, q)
		}
		if tt.processes == 4 && !strings.Contains(r.Text(), "creator=101") {
			t.Errorf("%s: a dead creator is lost\n%s", name, r.Text())
		}
	}
}
