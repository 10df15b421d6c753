package tui

import (
	"image/color"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

func (s *screen) selected() string { return s.labels().Row(s.view.Selected()) }

// While a text is typed, only rows that have it are shown, with those above them, also if they were
// folded away, and the first one is selected. Esc undoes it.
func TestText(t *testing.T) {
	s := shown(t, 80, 24)
	s.press("e j h k /")
	for _, step := range []struct{ key, row, says string }{
		{"s", "4121 sh", "417 match"}, {"l", "4130 sleep", "!make -j2"}, {"x", "", "nothing matches the filter"}, {"backspace", "4130 sleep", "4122 sh"},
	} {
		s.press(step.key)
		if r := s.view.Selected(); step.row != "" {
			require.Equal(t, s.labels().Row(r), step.row)
		}
		s.says(step.says)
	}
	s.press("esc")
	require.Equal(t, s.selected(), "k3x9q2 build")
	s.says("make -j2")
	s.press("/")
	s.typed("SLEEP 30") // as the row shows it: two arguments, in any case
	s.press("enter")
	require.Equal(t, s.selected(), "4130 sleep")
	s.press("esc")
	s.says("make -j2")
}

// Exited processes are hidden, but not those above a live one, nor the one that is
// selected when it exits.
func TestExitedHidden(t *testing.T) {
	s := shown(t, 80, 24)
	s.press("/ 4129 enter esc")
	s.frames(&api.Frame{Head: api.Head{Kind: "diff"}, Upsert: []api.Process{exited(4129, 4123, 0, "adopted-one")}})
	require.Equal(t, s.selected(), "4129 adopted-one")
	s.press("k")
	s.says("!adopted-one")
}

// 80 sessions that have ended stand below the live ones.
func TestEndedSessions(t *testing.T) {
	s := newScreen(t, newFake(), Options{}, 80, 24)
	s.frames(ended())
	s.frames(scene())
	s.frames(ended())
	lines := strings.Split(ansi.Strip(s.draw()), "\n")
	live := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "build k3x9q2") })
	over := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "job e0") })
	if live < 0 || over < live {
		t.Errorf("at %d and %d\n%s", live, over, s.draw())
	}
}

// The ports of processes are requested while a session has some, but not in each frame.
func TestPorts(t *testing.T) {
	s := shown(t, 80, 24)
	require.Equal(t, s.view.Picture.Process(ref(4130)).Ports[0], 8080)
	if s.asked.open.ports || s.opts.Now().Sub(s.asked.at.ports) != 0 {
		t.Errorf("%+v", s.asked)
	}
	s.press("f :8080 enter")
	s.says("4130 ", "!4128 ")
}

// Without a daemon the view waits; when one comes, the view shows it.
func TestWaitsForADaemon(t *testing.T) {
	s := newScreen(t, newFake(), Options{}, 80, 24)
	s.link = link{}
	s.send(picture.FeedMsg{Away: &api.UnreachableError{Socket: "/run/lineage/lineage.sock", Err: fs.ErrNotExist}})
	s.later(5 * time.Second)
	s.says("no daemon at /run/lineage/lineage.sock; start one: │", "│ sudo lineage daemon │", "│ sudo lineage run -- CMD │", "waiting for a daemon since 5s")
	s.send(picture.FeedMsg{Away: &api.UnreachableError{Socket: "/run/lineage/lineage.sock", Err: api.ErrSilent}})
	s.says("the daemon at /run/lineage/lineage.sock hangs or is stopped: no answer │", "restart it", "!sudo")
	s.press("x X T v i esc j z b / esc")
	s.send(picture.FeedMsg{Connected: s.fake})
	s.frames(scene())
	s.says("!waiting", "build")
}

// Esc leaves a filter that is wrong.
func TestWrongFilter(t *testing.T) {
	s := shown(t, 80, 24)
	s.press("f")
	s.typed("4130 --state x")
	s.press("esc")
	s.says("4121 sh", "!invalid")
}

// The empty tree says that there are sessions which the reader may not see.
func TestHiddenSessions(t *testing.T) {
	s := newScreen(t, newFake(), Options{}, 80, 24)
	s.send(picture.FeedMsg{Connected: s.fake})
	s.frames(&api.Frame{Head: api.Head{Kind: "snapshot"}, Status: &api.WatchStatus{Live: 90}})
	s.says("sessions of other users are hidden; run with sudo to see them", "!no sessions yet")
	s.status(func(st *api.WatchStatus) { st.Live = 0 })
	s.says("no sessions yet")
}

// The status line is shortened from its end, as far as it must be.
func TestStatusLineShrinks(t *testing.T) {
	s := newScreen(t, newFake(), Options{}, 80, 24)
	s.frames(scene())
	for width, want := range map[int]string{
		80: "lineage 3 sessions 8 live 1 orphan 0 forks/s L4 enforce check ok",
		66: "lineage 3 sessions 8 live 1 orphan 0 forks/s L4 enforce",
		46: "lineage 3 sessions 8 live 1 orphan 0/s",
		34: "lineage 3 sessions 8 live 0/s",
		24: "lineage 8 live 0/s",
	} {
		s.send(tea.WindowSizeMsg{Width: width, Height: 24})
		line, _, _ := strings.Cut(ansi.Strip(s.draw()), "\n")
		if got := strings.Join(strings.Fields(line), " "); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
}

// A session that is ending counts down in its dialog.
func TestCountdown(t *testing.T) {
	s := onOrphan(t, newFake())
	s.fake.Has.Begun = &api.Report{State: "ending", Processes: make([]api.Outcome, 7), Left: 3}
	s.press("x wait tab")
	_, cmd := s.Update(stroke("enter"))
	_ = cmd
	b := build()
	b.State, b.Deadline = "ending", at(6)
	s.frames(&api.Frame{Head: api.Head{Kind: "diff"}, Sessions: []api.Session{b}})
	s.says("Ending", "SIGKILL in 5s")
}

// The events pane follows the selection, and closes with the key.
func TestEventsFollowTheSelection(t *testing.T) {
	s := shown(t, 80, 24)
	s.withEvents()
	s.press("v")
	s.take()
	s.says("Events of k3x9q2 build", "make -j2")
	s.press("G")
	s.later(time.Second)
	s.says("Events of m8p4z1", "no event in the last 5 minutes")
	s.press("v")
	s.says("!Events of")
}

// A terminal with 256 colours gets the theme of its background, which it says itself; others
// use their own sixteen, and a chosen theme is kept.
func TestBackground(t *testing.T) {
	black, white := tea.BackgroundColorMsg{Color: color.Black}, tea.BackgroundColorMsg{Color: color.White}
	for _, tt := range []struct {
		theme   string
		profile colorprofile.Profile
		says    tea.Msg
		want    string
	}{
		{"auto", colorprofile.ANSI256, black, "dark"}, {"auto", colorprofile.TrueColor, white, "light"},
		{"auto", colorprofile.ANSI, black, "auto"}, {"auto", colorprofile.ANSI256, nil, "auto"},
		{"mono", colorprofile.TrueColor, black, "mono"}, {"light", colorprofile.TrueColor, black, "light"},
	} {
		s := newScreen(t, newFake(), Options{Theme: tt.theme}, 80, 24)
		s.frames(scene())
		s.send(tea.ColorProfileMsg{Profile: tt.profile})
		s.send(tt.says)
		want := newScreen(t, newFake(), Options{Theme: tt.want}, 80, 24)
		want.frames(scene())
		if s.draw() != want.draw() {
			t.Errorf("%+v: got\n%s", tt, s.draw())
		}
	}
}
