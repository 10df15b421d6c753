//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// both is an answer as an agent gets it. What the text says, the document says too.
func both(t *testing.T, out *answer, err error) (text string, doc answer) {
	t.Helper()
	require.NoError(t, err)
	out.fit()
	b, err := json.Marshal(out)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &doc))
	text = out.text()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		has := func(s string) bool { return strings.TrimSpace(s) == line }
		if slices.ContainsFunc(doc.Notes, has) || slices.ContainsFunc(doc.Calls, func(x callItem) bool { return has(x.Left) }) ||
			slices.ContainsFunc(doc.Items, func(x item) bool { return has(x.line()) || slices.ContainsFunc(x.Steps, has) }) {
			continue
		}
		if line != fmt.Sprintf("… and %d more", doc.More) {
			t.Errorf("only the text says %q: %s", line, b)
		}
	}
	if whole, err := json.Marshal(text); err != nil || len(whole)+len(b) > 8<<10-200 {
		t.Errorf("%d bytes (%v)", len(whole)+len(b), err)
	}
	return text, doc
}

func node(pid int, argv ...string) api.Process {
	return api.Process{Ref: api.Ref{PID: pid, StartNS: 9}, Comm: argv[0], Argv: argv, State: api.StateLive}
}

// server is a process whose creator, a shell of a tool call, is dead.
func server() api.Why {
	p := node(60, "node", "server.js")
	p.Calls = []api.Call{{ID: "toolu_1", Tool: "Bash", Claimed: true}}
	return api.Why{Process: p, Edges: []api.Edge{
		{Child: p, Creator: &api.EdgeEnd{Ref: api.Ref{PID: 50, StartNS: 8}, Comm: "sh", Argv: []string{"sh", "-c", "npm run dev"}}, Kind: "fork"},
		{Child: node(50, "sh"), Creator: &api.EdgeEnd{Ref: api.Ref{PID: 40, StartNS: 7}, Comm: "claude", Alive: true}, Kind: "fork"},
		{Child: node(40, "claude"), Kind: "root"},
	}, Holds: &api.Holds{Ports: []api.Port{{Proto: "tcp", Addr: "127.0.0.1", Port: 8080}}}}
}

// Who started a process, in which tool call, and what was asked for, is in both parts.
func TestExplain(t *testing.T) {
	f := &apitest.Client{Has: apitest.Has{Whys: map[int]*api.Why{60: new(server())},
		Holders: &api.Holders{Items: []api.Why{server()}, Hidden: 2, Unknown: []string{"sockets of PID 7"}}}}
	steps := []string{"60 was started by 50@8 sh -c 'npm run dev', which has exited", "50 was started by 40@7 claude", "40 is the root of the session"}
	for _, q := range []question{{Process: "60"}, {Port: 8080}, {Path: "/srv/lock"}} {
		out, err := explain(t.Context(), f, "s", q)
		text, doc := both(t, out, err)
		if len(doc.Items) != 1 {
			t.Fatalf("%+v: %+v", q, doc)
		}
		x := doc.Items[0]
		if x.Process != "60@9" || x.Call != "tool call Bash toolu_1 (claimed)" || !slices.Equal(x.Steps, steps) ||
			!slices.Equal(x.Ports, []string{"tcp 127.0.0.1:8080"}) {
			t.Errorf("%+v: %+v", q, x)
		}
		if !strings.Contains(text, x.Call) || !strings.Contains(text, steps[2]) {
			t.Errorf("%+v: %s", q, text)
		}
		var notes []string
		if q.Port != 0 {
			notes = []string{"tcp port 8080: 1 process of this session listens"}
		} else if q.Path != "" {
			notes = []string{"/srv/lock: 1 process of this session has it open or locked"}
		}
		if notes != nil {
			notes = append(notes, "2 holders outside this session: not yours to know or end", "not known: sockets of PID 7")
		}
		if !slices.Equal(doc.Notes, notes) {
			t.Errorf("%+v: %q, want %q", q, doc.Notes, notes)
		}
	}
	if _, err := explain(t.Context(), f, "s", question{Process: "60", Port: 8080}); err == nil {
		t.Error("two questions at once")
	}
	// Nobody of this session has it, but somebody else does.
	f.Has.Holders.Items = nil
	out, err := explain(t.Context(), f, "s", question{Port: 8080})
	if text, doc := both(t, out, err); len(doc.Notes) != 3 || doc.Items == nil || !strings.Contains(text, "2 holders outside") {
		t.Errorf("%s, %+v", text, doc)
	}
}

// One session that is not empty makes the whole end so, whatever the others say.
func TestVerdict(t *testing.T) {
	for want, verdicts := range map[string][]api.Verdict{
		"clean":        {api.VerdictClean, api.VerdictClean},
		"left":         {api.VerdictLeft, api.VerdictClean},
		"unknown":      {api.VerdictClean, api.VerdictUnknown, api.VerdictClean},
		"not over yet": {"", api.VerdictClean},
	} {
		f := &apitest.Client{Has: apitest.Has{Reports: map[string]*api.Report{}}}
		ids := []string{"branch", "also1", "also2"}[:len(verdicts)]
		for i, id := range ids {
			f.Has.Reports[id] = &api.Report{Session: id, Verdict: verdicts[i],
				VerdictWhy: map[bool]string{true: "a process is left"}[verdicts[i] == api.VerdictLeft],
				Processes:  []api.Outcome{{Ref: api.Ref{PID: 60 + i, StartNS: 9}, Comm: "node", Outcome: "SIGTERM", Why: "leftover"}}}
		}
		f.Has.Reports["branch"].Also = ids[1:]
		out, err := endBranch(t.Context(), f, "s", ending{Process: "60@9", Plan: "token"})
		text, doc := both(t, out, err)
		if doc.Verdict != want || len(doc.Notes) != len(ids) || len(doc.Items) != len(ids) || !slices.Equal(f.Got.Branches, []string{"60@9 plan=token"}) ||
			!strings.Contains(text, "verdict: "+want) {
			t.Errorf("%v: %+v, %s", verdicts, doc, text)
		}
	}
}

// The other tools.
func TestAnswers(t *testing.T) {
	dead := node(50, "sh")
	dead.State = api.StateExited
	until := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	spared := node(61, "claude")
	f := &apitest.Client{Has: apitest.Has{
		Sessions: []api.Session{{ID: "mine00", State: api.StateActive}},
		Trees:    map[string]*api.Tree{"mine00": {Nodes: []api.Node{{Process: node(60, "node")}, {Process: dead}}}},
		Plan: &api.Plan{Token: "token", Unknown: []string{"locks"}, Processes: []api.PlanProcess{
			{Process: node(60, "node"), Why: "forked by 50 sh", Killable: true, Ports: []api.Port{{Proto: "tcp", Addr: "::1", Port: 80}}}, {Process: spared}}},
		Kept: &api.Session{ID: "kept00", KeepRule: "preview", Until: &until},
	}}
	out, err := listRunning(t.Context(), f, "mine00", nothing{})
	if text, doc := both(t, out, err); len(doc.Items) != 1 || !strings.Contains(text, "session mine00: 1 live process") {
		t.Errorf("%s, %+v", text, doc)
	}
	out, err = ports(t.Context(), f, "mine00", nothing{})
	if text, doc := both(t, out, err); len(doc.Items) != 1 || len(doc.Items[0].Ports) != 1 || !strings.Contains(text, "not known: locks") {
		t.Errorf("%s, %+v", text, doc)
	}
	out, err = endBranch(t.Context(), f, "mine00", ending{Process: "60@9"})
	if text, doc := both(
		t,
		out,
		err,
	); f.Got.Branches != nil || doc.Plan != "token" || len(doc.Items) != 2 || !*doc.Items[0].Killable || *doc.Items[1].Killable ||
		!strings.Contains(text, `with plan "token"`) {
		t.Errorf("%s, %+v", text, doc)
	}
	f.Has.Plan.RefusedBy = "it is an ancestor of the caller"
	_, err = endBranch(t.Context(), f, "mine00", ending{Process: "60@9"})
	require.Contains(t, fmt.Sprint(err), f.Has.Plan.RefusedBy)
	out, err = keep(t.Context(), f, "mine00", keeping{Process: "60@9", Reason: "preview"})
	if text, _ := both(t, out, err); text != "kept until 2026-11-23T12:00:00Z in session kept00, by the policy's rule preview\n" {
		t.Error(text)
	}
}

// However much there is, and whatever it is called, an answer stays small and says what it lacks.
func TestBounds(t *testing.T) {
	name := strings.Repeat("<&>", 200)
	w := api.Why{Process: node(60, name)}
	for n := range 200 {
		w.Edges = append(w.Edges, api.Edge{Child: node(1000-n, name), Creator: &api.EdgeEnd{Ref: api.Ref{PID: 999 - n, StartNS: 8},
			Comm: "sh", Argv: []string{name}}, Kind: "fork"})
	}
	w.Edges = append(w.Edges, api.Edge{Child: node(40, "claude"), Kind: "root"})
	w.Holds = &api.Holds{}
	for n := range 200 {
		w.Holds.Ports = append(w.Holds.Ports, api.Port{Proto: "tcp", Addr: "127.0.0.1", Port: n})
	}
	f := &apitest.Client{Has: apitest.Has{Whys: map[int]*api.Why{60: &w},
		Holders: &api.Holders{Items: slices.Repeat([]api.Why{w}, 50), Unknown: slices.Repeat([]string{name}, 50)}}}
	out, err := explain(t.Context(), f, "s", question{Process: "60"})
	if _, doc := both(
		t,
		out,
		err,
	); len(doc.Items) != 1 || doc.Items[0].Steps[len(doc.Items[0].Steps)-1] != "40 is the root of the session" ||
		!strings.HasPrefix(doc.Items[0].Steps[0], "1000 was started by 999@8") {
		t.Errorf("%+v", doc)
	}
	out, err = explain(t.Context(), f, "s", question{Port: 80})
	if text, doc := both(t, out, err); len(doc.Items) != 1 || doc.More != 49 || !strings.Contains(text, "… and 49 more") {
		t.Errorf("%+v", doc)
	}
	f.Has.Sessions = []api.Session{{ID: "s"}}
	f.Has.Trees = map[string]*api.Tree{"s": {Nodes: slices.Repeat([]api.Node{{Process: node(60, name)}}, 800)}}
	out, err = listRunning(t.Context(), f, "s", nothing{})
	if text, doc := both(t, out, err); doc.More < 500 || !strings.Contains(text, "session s: 800 live processes") {
		t.Errorf("%s, %d more", text, doc.More)
	}
	f.Has.Plan = &api.Plan{Token: "token", Processes: slices.Repeat([]api.PlanProcess{{Process: node(60, name)}}, 800)}
	out, err = endBranch(t.Context(), f, "s", ending{Process: "60"})
	if _, doc := both(t, out, err); doc.More < 500 || doc.Plan != "token" {
		t.Errorf("%+v", doc)
	}
}

// Of equal processes the one that is idle longest is listed, with their number, and without what the others started.
func TestEqual(t *testing.T) {
	var nodes []api.Node
	for pid, creator := range map[int]int{40: 1, 60: 40, 61: 40, 62: 60, 63: 61} {
		nodes = append(nodes, api.Node{Process: node(pid, "node", fmt.Sprint(pid/62, ".js"), fmt.Sprint(pid))})
		p := &nodes[len(nodes)-1].Process
		p.Creator, p.Busy = &api.Ref{PID: creator, StartNS: 9}, new(time.Now().Add(-time.Duration(pid)*time.Hour))
	}
	slices.SortFunc(nodes, func(a, b api.Node) int { return a.PID - b.PID })
	nodes[0].Argv = []string{"codex"}
	f := &apitest.Client{Has: apitest.Has{Sessions: []api.Session{{ID: "s"}}, Trees: map[string]*api.Tree{"s": {Nodes: nodes}}}}
	out, err := listRunning(t.Context(), f, "s", nothing{})
	text, doc := both(t, out, err)
	if len(doc.Items) != 3 || doc.Items[1].Process != "61@9" || !strings.HasPrefix(doc.Items[1].Why,
		"one of 2 equal ones, idle for 2d13h") || doc.Items[2].Process != "63@9" {
		t.Errorf("%+v", doc.Items)
	}
	require.Contains(t, text, "session s: 5 live processes\n")
}

// What runs is summed by call, and a call is ended by its id: with its agent, its plan, and in this session.
func TestCalls(t *testing.T) {
	call := func(id string) api.Call { return api.Call{ID: id, Tool: "Bash", Agent: &api.Ref{PID: 40, StartNS: 7}} }
	f := &apitest.Client{Has: apitest.Has{
		Sessions: []api.Session{{ID: "mine00", State: api.StateActive}},
		Trees:    map[string]*api.Tree{"mine00": {Nodes: []api.Node{{Process: server().Process}}}},
		Orphans: &api.Orphans{Calls: []api.CallLeft{{Calls: []api.Call{call("toolu_1")}, Processes: 39, CPUs: 7,
			Commands: []api.CallCommand{{Processes: 39, Comm: "yes"}}},
			{Calls: []api.Call{call("a"), call("b")}, Ambiguous: true, Processes: 1}}},
		Plan: &api.Plan{Token: "token", Processes: []api.PlanProcess{{Process: node(60, "yes"), Killable: true}}},
	}}
	out, err := listRunning(t.Context(), f, "mine00", nothing{})
	text, doc := both(t, out, err)
	if len(doc.Calls) != 2 || doc.Calls[0].Call != "toolu_1" || doc.Calls[0].CPUs != 7 || !doc.Calls[1].Ambiguous ||
		doc.Calls[1].Call != "a or b" || doc.Items[0].Call != "toolu_1" ||
		!strings.Contains(text, "call Bash toolu_1, open: 39 × yes, 7.0 CPUs\n") {
		t.Errorf("%s, %+v", text, doc)
	}
	out, err = endBranch(t.Context(), f, "mine00", ending{Call: "toolu_1"})
	if text, doc := both(t, out, err); f.Got.Branches != nil || doc.Plan != "token" || len(doc.Items) != 1 {
		t.Errorf("%s, %+v", text, doc)
	}
	out, err = endBranch(t.Context(), f, "mine00", ending{Call: "toolu_1", Plan: "token"})
	if _, doc := both(t, out, err); doc.Verdict != "clean" || !slices.Equal(f.Got.Branches, []string{"40@7 call=toolu_1 plan=token"}) {
		t.Errorf("%q, %+v", f.Got.Branches, doc)
	}
	for _, e := range []ending{{}, {Process: "60@9", Call: "toolu_1"}, {Call: "none", Plan: "token"}} {
		if _, err := endBranch(t.Context(), f, "mine00", e); err == nil || len(f.Got.Branches) != 1 {
			t.Errorf("%+v: %v, %q", e, err, f.Got.Branches)
		}
	}
	f.Has.Orphans.Calls = slices.Repeat(f.Has.Orphans.Calls, 100)
	out, err = listRunning(t.Context(), f, "mine00", nothing{})
	if _, doc := both(t, out, err); len(doc.Calls) == 0 || len(doc.Calls) == 200 || len(doc.Items) != 1 ||
		!strings.Contains(doc.Notes[1], "more calls did not fit") {
		t.Errorf("%d calls, %d items, %q", len(doc.Calls), len(doc.Items), doc.Notes)
	}
}
