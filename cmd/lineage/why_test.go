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
		return []api.Process{{Ref: api.Ref{PID: 20}, Comm: "ssh\x1bd", Started: at(-90)}, {Ref: api.Ref{PID: 1}, Comm: "init", Argv: []string{"/sbin/init"}, Started: at(-90000)}}
	}
	golden(t, "why outside", w.record("why", "900")+w.record("why", "900", "-o", "json"))
}

// So is the holder of a port or of a file, with what to do about it.
func TestWhyHolderOutside(t *testing.T) {
	f := newFake()
	f.Has.Whys[4130] = &api.Why{Process: api.Process{Ref: ref(900), Comm: "node", Argv: []string{"node", strings.Repeat("x", 300)}, State: api.StateLive}}
	for what, file := range map[string]string{":8080": "", "file": "file"} {
		w := newWorld(t, f)
		w.host.ancestors = func(pid int) []api.Process {
			return []api.Process{{Ref: api.Ref{PID: 20}, Comm: "sh", Started: at(-90)}, {Ref: api.Ref{PID: 1}, Comm: "init", Argv: []string{"/sbin/init"}, Started: at(-90000)}}
		}
		if file != "" {
			t.Chdir(t.TempDir())
			require.NoError(t, os.WriteFile(file, nil, 0o600))
		}
		out := w.record("why", what)
		for _, want := range []string{"  1  init  parent", "  └─ 20  sh  parent", "     └─ 900  ", "To make a session of it and of what it started: lineage adopt 900\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s does not say %q: %s", what, want, out)
			}
		}
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

// TestWhyPortAt: which processes listened on a port, from when until when; only for TCP ports.
func TestWhyPortAt(t *testing.T) {
	w := newWorld(t, newFake())
	code, stdout, stderr := w.run("why", ":8080", "--at", "2h")
	if code != 0 || stderr != "" || !strings.Contains(stdout, ":8080/tcp was held by 4130") || !strings.Contains(stdout, "listened on tcp6 [::1]:8080 from ") ||
		!strings.Contains(stdout, " until ") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	for _, args := range []string{":8080/udp --at 2h", "4130 --at 2h", "/var/x --at 2h", ":8080 --at yesterday"} {
		if code, stdout, stderr := w.run(append([]string{"why"}, strings.Fields(args)...)...); code != 2 || stdout != "" || !strings.Contains(stderr, "--at") {
			t.Errorf("why %s: exit %d\n%s%s", args, code, stdout, stderr)
		}
	}
}

// TestClaims: what a member says about a process is shown as a claim, at the first process of a
// call, and is safe to print.
func TestClaims(t *testing.T) {
	f := newFake()
	call := api.Call{ID: "toolu_\x1b[2J", Tool: "Bash", Began: at(-90), Ended: at(-60), Claimed: true}
	claim := "tool call Bash toolu_\\x1b[2J (claimed)"
	tree := f.Has.Trees["k3x9q2"]
	for i := range tree.Nodes {
		if tree.Nodes[i].Ref != tree.Roots[0] {
			tree.Nodes[i].Calls = []api.Call{call}
		}
	}
	_, out, _ := newWorld(t, f).run("tree", "build")
	if got, top := strings.Count(out, claim), strings.Count(out, "(claimed)"); got == 0 || got != top || got >= len(tree.Nodes)-1 {
		t.Errorf("%d of %d rows name the call:\n%s", got, len(tree.Nodes), out)
	}
	why := f.Has.Whys[4130]
	why.Process.Calls = []api.Call{call}
	why.Process.Trace = &api.Trace{TraceID: "0af7", SpanID: "b7ad", Claimed: true}
	if _, out, _ := newWorld(t, f).run("why", "4130"); !strings.Contains(out, "started by "+claim+", which ended 1m0s ago · trace 0af7, below span b7ad (claimed)") {
		t.Errorf("%s", out)
	}
	f.Has.Events = []api.Event{
		{Head: api.Head{Kind: "event"}, Type: "mark", Process: &api.Process{Ref: ref(4120), Comm: "claude"}, Call: &call},
		{Head: api.Head{Kind: "event"}, Type: "trace", Process: &why.Process},
		{Head: api.Head{Kind: "end"}},
	}
	if _, out, _ := newWorld(t, f).run("events"); !strings.Contains(out, "end of "+claim) || !strings.Contains(out, "trace 0af7, below span b7ad") {
		t.Errorf("%s", out)
	}
}
