package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// A file is named as the caller sees it: resolved, with the result of stat.
func TestWhyPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	file, link := filepath.Join(dir, "80"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Symlink("80", link))
	t.Chdir(dir)
	for _, arg := range []string{file, link, "./80", "link", dir + "/../" + filepath.Base(dir) + "/80"} {
		f := newFake()
		if code, _, stderr := newWorld(t, f).run("why", arg); code != 0 || f.Got.Paths[0].Path != file || f.Got.Paths[0].Inode == 0 {
			t.Errorf("why %s: exit %d, asked for %+v, %s", arg, code, f.Got.Paths[0], stderr)
		}
	}
	f := newFake()
	if code, _, _ := newWorld(t, f).run("why", "gone"); code != 0 || f.Got.Paths[0].Path != filepath.Join(dir, "gone") || f.Got.Paths[0].Inode != 0 {
		t.Errorf("a file that is gone: exit %d, asked for %+v", code, f.Got.Paths[0])
	}
}

// A process outside any session is shown with its parents, and with the session that it
// runs.
func TestWhyOutside(t *testing.T) {
	f := newFake()
	f.Has.Sessions[0].Owner = new(ref(900))
	w := newWorld(t, f)
	w.host.ancestors = func(pid int) []api.Process {
		if pid != 900 {
			t.Errorf("asked for the ancestors of %d", pid)
		}
		return []api.Process{
			{Ref: api.Ref{PID: 20}, Comm: "ssh\x1bd", Started: at(-90)},
			{Ref: api.Ref{PID: 1}, Comm: "init", Argv: []string{"/sbin/init", strings.Repeat("y", 300)}, Started: at(-90000)},
		}
	}
	golden(t, "why outside", w.record("why", "900")+w.record("why", "900", "-o", "json"))
}

// TestWhyUnreadContainer: why says that no rule applies to a container of docker without a name.
func TestWhyUnreadContainer(t *testing.T) {
	f := newFake()
	f.On.Why = func(string) (*api.Why, error) {
		return &api.Why{Process: api.Process{Ref: api.Ref{PID: 7}, Comm: "sh", Container: &api.Container{ID: strings.Repeat("ab", 32), Runtime: "docker"}}}, nil
	}
	_, out, _ := newWorld(t, f).run("why", "7")
	require.Contains(t, out, "record cannot be read, no rule")
}

// So is the holder of a port or of a file, with what to do about it.
func TestWhyHolderOutside(t *testing.T) {
	f := newFake()
	f.Has.Whys[4130] = &api.Why{Process: api.Process{Ref: ref(900), Comm: "node", Argv: []string{"node", strings.Repeat("x", 300)}, State: api.StateLive}}
	for what, file := range map[string]string{":8080": "", "file": "file"} {
		w := newWorld(t, f)
		w.host.ancestors = func(pid int) []api.Process {
			return []api.Process{{Ref: api.Ref{PID: 20}, Comm: "sh", Started: at(-90)},
				{Ref: api.Ref{PID: 1}, Comm: "init", Argv: []string{"/sbin/init"}, Started: at(-90000)}}
		}
		if file != "" {
			t.Chdir(t.TempDir())
			require.NoError(t, os.WriteFile(file, nil, 0o600))
		}
		out := w.record("why", what)
		require.Contains(t, out, []string{"  1  init  parent", "  └─ 20  sh  parent", "     └─ 900  ", "To make a session of it and of what it started: lineage adopt 900, or a parent's PID\n"}...)
		if strings.Contains(out, strings.Repeat(" ", 20)) {
			t.Errorf("%s is padded: %s", what, out)
		}
		if out := w.record("why", what, "-o", "json"); strings.Count(out, `"ancestors"`) != 1 {
			t.Errorf("%s: %s", what, out)
		}
	}
}

// A path that does not exist may be a session's name: say so.
func TestWhySessionName(t *testing.T) {
	f := newFake()
	f.On.WhyPath = func(api.PathRef) (*api.Holders, error) {
		return nil, api.NewError(api.CodeNotFound, "no process found that has the path open or locked", "")
	}
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("m8p4z1", nil, 0o600))
	for arg, want := range map[string]string{
		"build":       "why build: no such file; build is a session: lineage tree k3x9q2",
		"k3x9q2":      "why k3x9q2: no such file; k3x9q2 is a session: lineage tree k3x9q2",
		"nosuch":      "why nosuch: no such file, and no process has one of that name open",
		"/lngtest/no": "why /lngtest/no: no such file, and no process has one of that name open",
		"m8p4z1":      "no process found that has the path open or locked", // the file exists
	} {
		if code, out, stderr := newWorld(t, f).run("why", arg); code != api.ExitNotFound || out != "" || stderr != "lineage: "+want+"\n" {
			t.Errorf("why %s: exit %d, %q", arg, code, stderr)
		}
	}
}

// TestClaims: what a member says about a process is shown as a claim, at the first process of a
// call, and is safe to print.
func TestClaims(t *testing.T) {
	f := newFake()
	call := api.Call{ID: "toolu_\x1b[2J", Tool: "Bash", Began: at(-90), Ended: at(-60), Claimed: true}
	tree := f.Has.Trees["k3x9q2"]
	for i := range tree.Nodes {
		if tree.Nodes[i].Ref != tree.Roots[0] {
			tree.Nodes[i].Calls = []api.Call{call}
		}
	}
	why := f.Has.Whys[4130]
	why.Process.Calls = []api.Call{call}
	why.Process.Trace = &api.Trace{TraceID: "0af7", SpanID: "b7ad", Claimed: true}
	f.Has.Events = []api.Event{
		{Head: api.Head{Kind: "event"}, Type: "mark", Process: &api.Process{Ref: ref(4120), Comm: "claude"}, Call: &call},
		{Head: api.Head{Kind: "event"}, Type: "trace", Process: &why.Process},
		{Head: api.Head{Kind: "end"}},
	}
	golden(t, "claims", newWorld(t, f).record("tree", "build")+newWorld(t, f).record("why", "4130")+newWorld(t, f).record("events"))
}

// A server whose children inherited its socket is one chain, with their PIDs below it. Who
// holds something else, or was started by others, has a chain of his own.
func TestWhySharedSocket(t *testing.T) {
	session := api.Session{ID: "k3x9q2", Name: "web", State: api.StateActive}
	fork := api.Evidence{Kind: "fork", Confidence: "strong"}
	edge := func(pid, creator int) api.Edge {
		return api.Edge{Child: by(live(pid, "node", "server.js"), creator, creator),
			Creator: &api.EdgeEnd{Ref: ref(creator), Comm: "node", Alive: true}, Kind: "fork", Evidence: fork}
	}
	chain := func(pids ...int) api.Why { // from the root down
		w := api.Why{Session: &session, Edges: []api.Edge{{Child: live(pids[0], "sh"), Kind: "root", Evidence: api.Evidence{Kind: "root", Confidence: "strong"}}}}
		for i, pid := range pids[1:] {
			w.Edges = append([]api.Edge{edge(pid, pids[i])}, w.Edges...)
		}
		w.Process = w.Edges[0].Child
		w.Holds = &api.Holds{Ports: []api.Port{{Proto: "tcp", Addr: "127.0.0.1", Port: 8080, PID: w.Process.PID}}}
		return w
	}
	many := []api.Why{chain(10, 20)}
	for pid := 30; pid < 50; pid++ {
		many = append(many, chain(10, 20, pid))
	}
	both := chain(10, 20, 32)
	both.Holds.Ports = append(both.Holds.Ports, api.Port{Proto: "tcp6", Addr: "::1", Port: 8080, PID: 32})
	outside := func(pid, parent int) api.Why {
		w := chain(pid)
		w.Session, w.Edges, w.Process.Session, w.Parent = nil, nil, "", &api.Process{Ref: ref(parent), Comm: "nginx"}
		return w
	}
	all := ""
	for _, items := range [][]api.Why{
		{chain(10, 20), chain(10, 20, 30)},                            // a child
		{chain(10, 20, 30), chain(10, 20, 31), chain(10, 20)},         // children first
		{chain(10, 20), chain(10, 20, 30), chain(10, 20, 30, 40)},     // a grandchild
		{chain(10, 20, 30), chain(10, 20, 31), chain(10, 20, 31, 41)}, // of a dead server
		many,                                   // many
		{chain(10, 20, 30), chain(10, 21, 31)}, // of two programs
		{chain(10, 20), both},                  // with another port
		{outside(50, 1), outside(60, 50), outside(61, 50)}, // in no session
		{outside(1, 0), outside(60, 1)},                    // a service and the init that opened its socket
		{outside(50, 1), outside(60, 1)},                   // two services
	} {
		f := newFake()
		f.On.WhyPort = func(string, int) (*api.Holders, error) {
			return &api.Holders{Items: items, Unknown: []string{"open files of PID 7 could not be read", "more than 64 processes"}}, nil
		}
		all += newWorld(t, f).record("why", ":8080") + newWorld(t, f).record("why", ":8080", "-o", "name")
	}
	golden(t, "why shared socket", all)
}
