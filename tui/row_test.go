package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api"
)

// The normal state has no letter, so that none comes a second after its row.
func TestLetters(t *testing.T) {
	for letter, want := range map[string]string{
		"R": "●R 4123 make", "D": "●D 4123 make", "T": "●T 4123 make", "t": "●t 4123 make",
		"S": "● 4123 make", "I": "● 4123 make", "RD": "● 4123 make", "\x1b": "● 4123 make", "": "● 4123 make",
	} {
		s := newScreen(t, newFake(), Options{}, 120, 30)
		s.opts.Tasks = nil
		f := scene()
		f.Upsert[3].Task = letter
		s.frames(f)
		s.says(want)
	}
	s := newScreen(t, newFake(), Options{}, 120, 30)
	s.frames(scene())
	s.says("● 4123 make")
	s.press("4 123 enter")
	s.says("● sleeping")
}

// Without colours what is dead is faint, and the live ones are not.
func TestDeadIsFaint(t *testing.T) {
	const faint = "\x1b[2m"
	s := newScreen(t, newFake(), Options{Theme: "mono"}, 80, 24)
	s.frames(scene())
	for line := range strings.Lines(s.draw()) {
		text := ansi.Strip(line)
		dead := strings.Contains(text, "4122 sh ") && strings.Contains(text, "X")
		if name, _, found := strings.Cut(text, " sh "); found && strings.Contains(line, faint+"sh") != dead {
			t.Errorf("%s: %q", name, line)
		}
	}
	if !strings.Contains(s.draw(), faint+"sh") {
		t.Errorf("no dead row:\n%s", s.draw())
	}
}

// What does not happen is blank, and a graph stands beside its unit.
func TestGraphs(t *testing.T) {
	s := newScreen(t, newFake(), Options{}, 200, 50)
	s.frames(scene())
	s.later(time.Second)
	s.press("z")
	s.says("!▁", "activity none")
	s.busy()
	s.says("█ 1521 forks/s", "!activity none")
}

// The column of users is there only if it tells rows apart.
func TestUsers(t *testing.T) {
	s := newScreen(t, newFake(), Options{}, 200, 50)
	s.frames(scene())
	s.says("USER")
	f := scene()
	f.Sessions = f.Sessions[:2] // without the one of root
	s = newScreen(t, newFake(), Options{}, 200, 50)
	s.frames(f)
	s.says("!USER")
	daemon := live(4140, 4123, 4123, "db")
	daemon.UID = new(70)
	s.frames(&api.Frame{Head: api.Head{Kind: "diff"}, Upsert: []api.Process{daemon}})
	s.says("USER", " 70 ")
	s.frames(&api.Frame{Head: api.Head{Kind: "diff"}, Remove: []api.Ref{daemon.Ref}})
	s.says("!USER")
	s.press("C user enter")
	s.says("USER")
}
