package tui

import (
	"errors"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"pgregory.net/rapid"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tui/ink"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// When a daemon comes back, with other revision numbers, the view is as it was.
func TestReconnect(t *testing.T) {
	s := onOrphan(t, newFake())
	s.press("/")
	s.typed("make -j")
	s.press("enter esc h")
	selected := s.view.Selected().Key()
	before := s.draw()
	s.send(picture.FeedMsg{Away: errors.New("connection refused")})
	s.says("away")
	again := scene()
	again.Rev = 70
	s.frames(again)
	if s.view.Selected().Key() != selected || s.draw() != before {
		t.Errorf("before\n%s\nafter\n%s", before, s.draw())
	}
}

// If the kernel does not report reparenting, the picture has the dead parent for a
// while. The answer to why has the current one.
func TestPresentParent(t *testing.T) {
	f := newFake()
	f.Has.Whys[4130].Process.Parent = new(ref(1))
	f.Has.Whys[4130].Parent = &api.Process{Ref: ref(1), Comm: "init", State: "live"}
	s := onOrphan(t, f)
	s.press("i")
	s.says("1 init, now")
}

// The picture knows of a creator's death before the next answer to why does.
func TestCreatorExits(t *testing.T) {
	s := onOrphan(t, newFake())
	s.press("i")
	s.says("4121 sh -c 'make & wait' ", "!4121 sh -c 'make & wait' exited")
	s.frames(&api.Frame{Head: api.Head{Kind: "diff"}, Rev: 2, TimeNS: 4201e9, Upsert: []api.Process{exited(4121, 4100, 0, "sh")}})
	s.says("4121 sh -c 'make & wait' exited 12:03:08")
}

// One request at a time: moving over many rows requests only the row where it stops.
func TestWhyIsAskedOnce(t *testing.T) {
	s := shown(t, 120, 30)
	_, first := s.Update(stroke("down"))
	for range 5 {
		s.Update(stroke("down"))
	}
	require.Equal(t, len(s.fake.Got.Whys), 0)
	s.run(first)
	at := s.view.Selected().Process
	if len(s.fake.Got.Whys) != 2 || at == nil || s.fake.Got.Whys[1] != at.Ref.String() {
		t.Errorf("asked %q", s.fake.Got.Whys)
	}
	s.later(time.Second)
	s.run(s.ask())
	require.Equal(t, len(s.fake.Got.Whys), 2)
	s.later(whyEvery)
	s.run(s.ask())
	require.Equal(t, len(s.fake.Got.Whys), 3)
}

// q ends nothing, from everywhere except while a line is typed.
func TestQuit(t *testing.T) {
	for _, keys := range []string{"q", "i q", "? q", "T q", "o q", "ctrl+c", "/ ctrl+c", "x ctrl+c"} {
		s := onOrphan(t, newFake())
		s.press(keys)
		if !s.quit {
			t.Errorf("%s does not quit", keys)
		}
		sent(t, s)
	}
	s := onOrphan(t, newFake())
	s.press("/ q")
	if s.quit {
		t.Error("a typed q quits")
	}
}

func TestRates(t *testing.T) {
	var r rates
	p := picture.New()
	r.sample(noon, 1000, p)
	r.sample(noon.Add(2*time.Second), 1100, p)
	require.Equal(t, r.forks, 50)
	r.sample(noon.Add(3*time.Second), 5, p)
	require.Equal(t, r.forks, 0)
	p.Apply(&picture.Batch{Sessions: map[string]*api.Session{"k3x9q2": {ID: "k3x9q2"}}})
	for i := range 200 {
		r.sample(noon.Add(time.Duration(4+i)*time.Second), uint64(i), p)
	}
	require.Equal(t, len(r.sessions["k3x9q2"]), samples)
	require.Equal(t, ink.New("auto").Sparkline([]float64{90, 0, 10, 20, 40}, 4), " ▃▅█")
}

// Whatever keys are pressed, at any size, with any frames: the frame fits, nothing is
// sent, and nothing breaks.
func TestAnyKeys(t *testing.T) {
	keys := []string{"up", "down", "left", "right", "enter", "esc", "pgup", "pgdown", "g", "G", "i", "/", "n", "f",
		"backspace", "s", "T", "o", "x", "X", "?", "b", "!",
		"z", "e", "v", "P", "M", "tab", "+", "-", "0", "ctrl+l"}
	rapid.Check(t, func(rt *rapid.T) {
		s := newScreen(t, newFake(), Options{}, 80, 24)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				f := &api.Frame{Head: api.Head{Kind: "diff"}}
				pid := rapid.IntRange(4121, 4140).Draw(rt, "pid")
				if rapid.Bool().Draw(rt, "gone") {
					f.Remove = []api.Ref{ref(pid)}
				} else {
					f.Upsert = []api.Process{exited(pid, rapid.IntRange(4121, 4140).Draw(rt, "creator"), 0, "sh")}
				}
				s.frames(f)
			case 1:
				s.frames(scene())
			case 2:
				s.send(tea.WindowSizeMsg{Width: rapid.IntRange(1, 120).Draw(rt, "width"), Height: rapid.IntRange(1, 40).Draw(rt, "height")})
			default:
				s.press(rapid.SampledFrom(keys).Draw(rt, "key"))
			}
			frame := s.draw()
			fits(t, frame, s.term.width, s.term.height)
			if t.Failed() {
				rt.Fatalf("%dx%d\n%s", s.term.width, s.term.height, frame)
			}
		}
		if len(s.sent()) != 0 {
			rt.Fatalf("sent %q", s.sent())
		}
	})
}
