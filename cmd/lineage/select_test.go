package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// selectable is a daemon with five sessions, each with one process and one event. Port 8080 is the first one's.
func selectable() *apitest.Client {
	box := &api.Container{Name: "box"}
	f := &apitest.Client{Has: apitest.Has{Trees: map[string]*api.Tree{}, Sessions: []api.Session{
		{ID: "aaa111", Name: "web", Container: box}, {ID: "bbb222", Name: "nightly-1", Leftovers: 1},
		{ID: "ccc333", Name: "nightly-2", Kept: true, IdleSeconds: 90}, {ID: "ddd444", Paused: new(noon)}, {ID: "eee555", Name: "nightly-3", Container: box},
	}}}
	for i := range f.Has.Sessions {
		s := &f.Has.Sessions[i]
		p := live(i+1, "sh")
		p.Session, s.State, s.UID, s.Live = s.ID, api.StateActive, 1000, 1
		f.Has.Trees[s.ID] = &api.Tree{Session: s, Roots: []api.Ref{p.Ref}, Nodes: []api.Node{{Process: p}}}
		f.Has.Events = append(f.Has.Events, api.Event{Type: "exec", Session: s.ID, Process: &p})
	}
	f.Has.Sessions[4].State = api.StateEnded
	f.On.WhyPort = func(string, int) (*api.Holders, error) {
		return &api.Holders{Items: []api.Why{{Session: &f.Has.Sessions[0], Process: f.Has.Trees["aaa111"].Nodes[0].Process}}}, nil
	}
	return f
}

// filtered are the sessions of which top shows something with a filter.
func filtered(t *testing.T, f *apitest.Client, args string) string {
	sel, err := cli.ParseSelection(strings.Fields(args), func() int { return 1000 })
	require.NoError(t, err)
	frame, p, b := &api.Frame{Head: api.Head{Kind: "snapshot"}, Sessions: f.Has.Sessions[:4]}, picture.New(), picture.NewBatch()
	for i := range frame.Sessions {
		frame.Upsert = append(frame.Upsert, f.Has.Trees[f.Has.Sessions[i].ID].Nodes[0].Process)
	}
	b.Add(frame)
	p.Apply(b)
	p.SetPorts(map[api.Ref][]int{frame.Upsert[0].Ref: {8080}})
	p.SetFilter(&picture.Filter{Selection: sel})
	var ids []string
	p.AllSessions(func(r *picture.Row) {
		if r.Hits() > 0 {
			ids = append(ids, r.Session.ID)
		}
	})
	return strings.Join(ids, " ")
}

// ordered are the sessions that a host with these would end by the command in a file, which goes.
func ordered(all []api.Session, file string) string {
	var signed api.SignedCommand
	text, _ := os.ReadFile(file)
	os.Remove(file)
	json.Unmarshal(text, &signed)
	c, err := api.ParseCommand(signed.Command)
	if err != nil {
		return ""
	}
	all = slices.DeleteFunc(slices.Clone(all), func(s api.Session) bool {
		return !slices.ContainsFunc(c.Sessions, func(word string) bool { return api.Means(word, &s) && (!s.Kept || word == s.ID || word == s.Name) })
	})
	var ids []string
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return strings.Join(ids, " ")
}

// TestSelections: each command means what ls shows of a selection, restricted to what it is for.
func TestSelections(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", dir+"/key").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, x := range []struct{ args, ls, history string }{
		{"web", "aaa111", ""},
		{"ddd444 web", "ddd444 aaa111", ""},
		{":8080", "aaa111", ""},
		{"1", "aaa111", ""},
		{"3@3000", "ccc333", ""}, // kept, and named
		{"nightly-*", "bbb222 ccc333", "eee555"},
		{"nightly-* --state kept", "ccc333", ""},
		{"web ddd444 --container box", "aaa111", ""},
		{"--container box", "aaa111", "eee555"},
		{"--state leftover", "bbb222", ""},
		{"--state paused", "ddd444", ""},
		{"--idle 1m", "ccc333", ""},
		{"--mine", "aaa111 bbb222 ccc333 ddd444", "eee555"},
		{"--user 4294967", "", ""},
	} {
		run := func(command string) (string, *apitest.Client) {
			f := selectable()
			_, out, _ := newWorld(t, f).run(strings.Fields(command + " " + x.args)...)
			return strings.Join(strings.Fields(out), " "), f
		}
		sessions := strings.Fields(x.ls)
		process := strings.ContainsAny(x.args[:1], ":13")
		named := !strings.ContainsAny(x.args, "*-")
		only := func(is func(s *api.Session) bool, before string) string {
			var ids []string
			for _, id := range sessions {
				if s, _ := selectable().Find(id); named || is(s) {
					ids = append(ids, before+id)
				}
			}
			return strings.Join(ids, " ")
		}
		processes := func(ids ...string) (refs string) {
			for _, id := range ids {
				refs += " " + selectable().Has.Trees[id].Roots[0].String()
			}
			return strings.TrimPrefix(refs, " ")
		}
		got := map[string]string{}
		want := map[string]string{"ls": x.ls, "history": x.history, "tree": processes(sessions...)}
		want["end"] = only(func(s *api.Session) bool { return !s.Kept }, "")
		want["signed"], want["top"] = sorted(want["end"]), sorted(x.ls)
		if process { // which is less than its session
			want["end"], want["keep"] = "", fmt.Sprintf("[%s]", processes(sessions...))
		}
		if process || strings.Contains(x.args, "--") { // of which the host is not asked
			want["signed"] = ""
		}
		want["pause"] = only(func(s *api.Session) bool { return !s.IsPaused() }, "pause ")
		want["resume"] = only((*api.Session).IsPaused, "resume ")
		want["halt"] = x.ls
		for _, command := range []string{"ls", "tree", "history"} {
			got[command], _ = run(command + " -o name")
		}
		out, _ := run("events -o name")
		got["events"], want["events"] = sorted(out), sorted(processes(append(sessions, strings.Fields(x.history)...)...))
		got["top"] = sorted(filtered(t, selectable(), x.args))
		_, f := run("keep --reason r --until 1h")
		if len(f.Got.Kept) > 0 {
			got["keep"] = fmt.Sprint(f.Got.Kept[0].Refs)
		}
		_, f = run("end --yes --reason r --sign " + dir + "/key --save " + dir + "/command")
		got["signed"] = ordered(f.Has.Sessions[:4], dir+"/command")
		_, f = run("end --yes")
		got["end"] = strings.Join(f.Got.Ended, " ")
		for _, command := range []string{"pause", "resume"} {
			_, f := run(command + " --yes")
			got[command] = strings.Join(f.Got.Paused, " ")
		}
		_, f = run("halt --yes --reason r")
		if len(f.Got.Halts) > 0 {
			got["halt"] = strings.NewReplacer("web", "aaa111").Replace(strings.Join(f.Got.Halts[0].Sessions, " "))
		}
		require.Equal(t, len(f.Got.Halts) > 0, x.ls != "") // none is not all
		for command := range want {
			if got[command] != want[command] {
				t.Errorf("%s %s: %q, want %q", command, x.args, got[command], want[command])
			}
		}
	}
}

func sorted(words string) string {
	all := strings.Fields(words)
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestSelectsOrAsks: a pause of several and an end by PID say on a terminal what they are about, and ask.
func TestSelectsOrAsks(t *testing.T) {
	f := selectable()
	w := newWorld(t, f)
	shown := w.terminal("y\n")
	w.run("pause", "nightly-*")
	require.Equal(t, strings.Join(f.Got.Paused, " "), "pause bbb222 pause ccc333")
	require.Contains(t, shown(), "bbb222 nightly-1", "Do you want to pause these 2 sessions?")
	f = selectable()
	w = newWorld(t, f)
	shown = w.terminal("n\n")
	w.run("end", "1")
	require.Contains(t, shown(), "1 belongs to session aaa111 web: this ends the session", "End it?")
}
