package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// A file is named as the caller sees it: resolved, with what stat says of it.
func TestWhyPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, link := filepath.Join(dir, "80"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("80", link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, arg := range []string{file, link, "./80", "link", dir + "/../" + filepath.Base(dir) + "/80"} {
		f := newFake()
		if code, _, stderr := newWorld(t, f).run("why", arg); code != 0 || f.asked.Path != file || f.asked.Inode == 0 {
			t.Errorf("why %s: exit %d, asked for %+v, %s", arg, code, f.asked, stderr)
		}
	}
	f := newFake()
	if code, _, _ := newWorld(t, f).run("why", "gone"); code != 0 || f.asked.Path != filepath.Join(dir, "gone") || f.asked.Inode != 0 {
		t.Errorf("a file that is gone: exit %d, asked for %+v", code, f.asked)
	}
}

// A process outside any session is shown with its parents, and with the session that it
// runs.
func TestWhyOutside(t *testing.T) {
	f := newFake()
	f.sessions[0].Owner = new(ref(900))
	w := newWorld(t, f)
	w.host.ancestors = func(pid int) []api.Process {
		if pid != 900 {
			t.Errorf("asked for the ancestors of %d", pid)
		}
		return []api.Process{{Ref: api.Ref{PID: 20}, Comm: "ssh\x1bd", Started: at(-90)}, {Ref: api.Ref{PID: 1}, Comm: "init", Argv: []string{"/sbin/init"}, Started: at(-90000)}}
	}
	golden(t, "why outside", w.record("why", "900")+w.record("why", "900", "-o", "json"))
}

// A path that does not exist may be a session's name: say so.
func TestWhySessionName(t *testing.T) {
	f := newFake()
	f.noHolders = true
	t.Chdir(t.TempDir())
	if err := os.WriteFile("m8p4z1", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{
		"build":       "why build: no such file; build is a session: lineage tree k3x9q2",
		"k3x9q2":      "why k3x9q2: no such file; k3x9q2 is a session: lineage tree k3x9q2",
		"nosuch":      "why nosuch: no such file, and no process has one of that name open",
		"/lngtest/no": "why /lngtest/no: no such file, and no process has one of that name open",
		"m8p4z1":      "no process found that has the path open or locked", // there is such a file
	} {
		if code, out, stderr := newWorld(t, f).run("why", arg); code != api.ExitNotFound || out != "" || stderr != "lineage: "+want+"\n" {
			t.Errorf("why %s: exit %d, %q", arg, code, stderr)
		}
	}
}
