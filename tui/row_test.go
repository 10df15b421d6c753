package tui

import (
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api"
)

// A process that is stopped has a letter; the details say what the others do.
func TestLetters(t *testing.T) {
	s := newScreen(t, newFake(), Options{}, 120, 30)
	f := scene()
	f.Upsert[3].Stopped = &api.Sender{Signal: "SIGSTOP"}
	s.frames(f)
	s.says("●T 4123 make", "● 4129 adopted-one")
	s.press("/ 4129 enter esc")
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

// How a process died and when stand in one place at every width, not in a note.
func TestFate(t *testing.T) {
	for _, width := range []int{40, 60, 80, 100, 120, 200} {
		s := shown(t, width, 24)
		f := calls()
		f.Upsert[0].Exited, f.Upsert[3].Exited = at(-12), at(-12)
		s.frames(f)
		s.press("e")
		var ends []int // of ages, times of death, and codes
		var codes []int
		for _, line := range strings.Split(ansi.Strip(s.draw()), "\n") {
			line = string([]rune(line)[:min(s.layout().tree, len([]rune(line)))])
			if head, _, found := strings.Cut(line, "AGE─"); found {
				ends = append(ends, ansi.StringWidth(head+"AGE"))
			}
			if head, _, found := strings.Cut(line, "† 12s"); found {
				ends = append(ends, ansi.StringWidth(head+"† 12s"))
			}
			for _, code := range []string{"exit 0", "exit 1", "SIGKILL"} {
				if i := strings.Index(line, code); i >= 0 && !strings.Contains(line, "condemned") {
					codes = append(codes, ansi.StringWidth(line[:i]+code))
				}
			}
			if strings.Contains(line, " 12s") && !strings.Contains(line, "† 12s") {
				t.Errorf("%d: %s", width, line)
			}
		}
		ends, codes = slices.Compact(ends), slices.Compact(codes)
		if len(ends) != 1 || len(codes) != 1 {
			t.Errorf("%d: they end at %v and %v\n%s", width, ends, codes, s.draw())
		}
	}
}

// Who has to reap a zombie is in its details; TestFrames has the orphan's.
func TestCreatorOnTheRow(t *testing.T) {
	s := shown(t, 120, 30)
	s.press("/ 4127 enter esc")
	s.says("its parent 4123 make has ")
}

// A tool call with a hostile name takes few cells of its row; TestFrames has the others.
func TestCallOnTheRow(t *testing.T) {
	hostile := live(4135, 4123, 4123, "x")
	hostile.Calls = []api.Call{{ID: "\x1b[31m\u202e名前名前名前", Tool: strings.Repeat("名", 64)}}
	s := shown(t, 120, 50)
	s.frames(&api.Frame{Head: api.Head{Kind: "diff"}, Upsert: []api.Process{hostile}})
	fits(t, s.draw(), 120, 50)
	s.says("⟨名名名名名… …名前⟩ ")
}

// While a call is open the timeline asks more often whether it has ended.
func TestEndOfACallIsAsked(t *testing.T) {
	for _, open := range []bool{false, true} {
		asked := 0
		f := newFake()
		f.On.Tree = func(*api.Tree, string) { asked++ }
		s := newScreen(t, f, Options{}, 80, 24)
		s.frames(scene())
		if open {
			s.frames(calls())
			server := live(4140, 4123, 4123, "x")
			server.Calls = []api.Call{{ID: "open", Tool: "Bash", Began: at(-5)}}
			s.frames(&api.Frame{Head: api.Head{Kind: "diff"}, Upsert: []api.Process{server}})
		}
		s.press("T")
		first := asked
		s.later(callsEvery)
		s.run(s.ask())
		if again := asked > first; first != 1 || again != open {
			t.Errorf("open %t: asked %d times, then %d", open, first, asked-first)
		}
	}
}

// The details draw the tree of lineage why, the whole of it without an answer of the daemon too.
func TestCreators(t *testing.T) {
	s := shown(t, 200, 50)
	s.press("/ 4129 enter esc i") // the daemon knows nothing of it
	s.says("4121 sh -c 'make & wait' 12:02:01", "└─ 4123 make -j2 12:02:03", "└─ 4129 adopted-one adopted 12:02:09",
		"4129 adopted-one: evidence adopted (ppid), weak", "not found")

	deep := api.Frame{Head: api.Head{Kind: "diff"}}
	for i := range 40 {
		deep.Upsert = append(deep.Upsert, live(4200+i, 4199+i, 4199+i, "sh"))
	}
	deep.Upsert[0].Creator = new(ref(4123))
	s = shown(t, 80, 100)
	s.frames(&deep)
	s.press("/ 4239 enter esc i")
	s.says("[20] 4218 sh", "[41] 4239 sh")
	fits(t, s.draw(), 80, 100)
}

// In little room a note is short, then it is left out: no part of a PID is shown.
func TestNotesAreWhole(t *testing.T) {
	for width := 24; width < 200; width++ {
		s := shown(t, width, 40)
		s.frames(calls())
		for _, line := range strings.Split(ansi.Strip(s.draw()), "\n") {
			if _, note, found := strings.Cut(line, "  ↷"); found && !strings.HasPrefix(note+" ", "4122 ") && !strings.HasPrefix(note+" ", "4131 ") {
				t.Errorf("%d: %s", width, line)
			}
			if open, shut := strings.Count(line, "⟨"), strings.Count(line, "⟩"); open != shut {
				t.Errorf("%d: %s", width, line)
			}
		}
	}
}
