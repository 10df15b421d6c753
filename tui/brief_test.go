package tui

import (
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// The directories of a program hide neither its name nor its script, in no place but the
// details, which have them.
func TestProgramFirst(t *testing.T) {
	server := live(4130, 4122, 4100, "vite")
	server.Argv = []string{"/home/ada/.local/share/pyenv/versions/3.11.7/bin/python3", "/home/ada/projects/shop/srv.py"}
	server.Orphan = true
	open := func(o Options) *screen {
		f := newFake()
		f.Has.Plan.Processes[2].Process = server
		f.Has.Report.Processes[2] = api.Outcome{Ref: server.Ref, Comm: server.Comm, Argv: server.Argv, Outcome: "kill"}
		f.Has.Whys[4130].Process = server
		s := newScreen(t, f, o, 80, 24)
		frame := scene()
		frame.Upsert[2] = server
		s.frames(frame)
		return s
	}
	brief := "vite · python3 srv.py"
	for _, keys := range []string{"", "o", "x wait", "x wait tab enter"} {
		s := open(Options{})
		s.press(keys)
		s.says(brief, "!pyenv")
	}
	s := open(Options{})
	s.press("T")
	s.says("4130 vite · pyt")
	s = open(Options{ASCII: true})
	s.says("vite - python3 srv.py")
	s.press("/ 4130 enter esc i")
	s.says("4130 vite", "pyenv", "srv.py")
}
