package tui

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/tui/panes"
)

func onOrphan(t *testing.T, f *apitest.Client) *screen {
	s := newScreen(t, f, Options{}, 80, 24)
	s.frames(scene())
	s.press("/ 4130 enter esc")
	return s
}

func sent(t *testing.T, s *screen, want ...string) {
	t.Helper()
	if got := slices.Sorted(slices.Values(s.sent())); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

// Keys typed just when the dialog opened were not meant for it.
func TestDialogIsDeafAtFirst(t *testing.T) {
	for _, open := range []string{"x", "X"} {
		s := onOrphan(t, newFake())
		s.press(open)
		for range 3 {
			s.press("tab enter right enter l enter esc q n")
			s.later(99 * time.Millisecond)
		}
		if s.dialog == nil || !strings.Contains(s.draw(), "[ Cancel ]") || s.dialog.Stage() != panes.Asking {
			t.Fatalf("%s: a key of the first 300 ms did something", open)
		}
		sent(t, s)
		s.later(4 * time.Millisecond)
		s.press("tab")
		s.says("![ Cancel ]")
	}
}

// A list is shown for 300 ms before it can be confirmed.
func TestDialogIsDeafWhenThePlanComes(t *testing.T) {
	s := onOrphan(t, newFake())
	_, cmd := s.Update(stroke("x"))
	s.later(time.Hour)
	s.press("tab enter")
	s.says("not yet: the list of what would die has not come")
	s.run(cmd)
	s.press("enter")
	sent(t, s)
	s.later(301 * time.Millisecond)
	s.press("enter")
	sent(t, s, "end k3x9q2 plan=5f3a")
}

func TestCancelIsTheDefault(t *testing.T) {
	for _, keys := range []string{"enter", "esc", "q", "n", "tab left enter", "tab tab esc"} {
		for _, open := range []string{"x", "X"} {
			s := onOrphan(t, newFake())
			s.press(open + " wait " + keys)
			if s.dialog != nil || s.quit {
				t.Errorf("%s %s: the dialog is open %t, quit %t", open, keys, s.dialog != nil, s.quit)
			}
			sent(t, s)
		}
	}
}

func TestEnd(t *testing.T) {
	for keys, want := range map[string]string{"tab enter": "end k3x9q2 plan=5f3a", "right right right enter": "end k3x9q2 now plan=5f3a"} {
		s := onOrphan(t, newFake())
		s.press("x wait " + keys)
		sent(t, s, want)
		s.says("k3x9q2 build: ended, clean: 3 processes in 12")
		s.press("enter")
		if s.dialog == nil {
			t.Error("the key that confirmed closes the result too")
		}
		s.press("wait enter")
		s.says("!Enter closes", "k3x9q2 build: ended, clean")
		sent(t, s, want)
	}
}

// TestResult: the dialog has the words of the other faces.
func TestResult(t *testing.T) {
	s := shown(t, 120, 50)
	s.press("/ 4130 enter esc x wait tab enter")
	words := display.Receipted(s.fake.Has.Report, display.Names{Command: func(p *api.Process) string { return display.Brief(p.Argv, p.Comm, false, 0) }})
	s.says(words.String())
	for _, row := range words.Rows {
		s.says(row.PID + " " + row.Command + " " + row.How)
	}
	for _, n := range words.Notes {
		s.says(n.Text)
	}
}

// The PID may be reused before the kill: the chosen process is named by its start too,
// and the dialog does not follow the selection.
func TestKillIsFrozen(t *testing.T) {
	s := onOrphan(t, newFake())
	s.press("X wait")
	other := live(4130, 4123, 4123, "innocent")
	other.StartNS = 9999e9
	s.frames(&api.Frame{Head: api.Head{Kind: "diff"}, Remove: []api.Ref{ref(4130)}, Upsert: []api.Process{other}})
	s.says("Kill 4130 sleep only?", "4130@4130000000000")
	s.fake.On.Kill = func(string, api.KillRequest) (*api.Killed, error) {
		return nil, api.NewError(api.CodeIdentity, "pid 4130 is not the process you named (4130@4130000000000 exited); nothing was sent", "")
	}
	s.press("tab tab enter")
	sent(t, s, "kill 4130@4130000000000 KILL")
	s.says("nothing was sent")
}

// The session of the row that was selected is ended, wherever the selection moves
// meanwhile.
func TestEndIsFrozen(t *testing.T) {
	s := onOrphan(t, newFake())
	s.press("x")
	s.frames(&api.Frame{Head: api.Head{Kind: "snapshot"}, Sessions: []api.Session{{ID: "zzzzzz", State: "active"}}})
	s.later(time.Second)
	s.press("tab enter")
	sent(t, s, "end k3x9q2 plan=5f3a")
}

func TestReadOnly(t *testing.T) {
	for name, change := range map[string]func(*screen){
		"flag":   func(s *screen) { s.opts.ReadOnly = true },
		"member": func(s *screen) { s.link.status.ReadOnly = true },
	} {
		for _, open := range []string{"x", "X"} {
			s := onOrphan(t, newFake())
			change(s)
			s.press(open)
			if s.dialog != nil || !strings.Contains(s.message.text, "read-only") {
				t.Errorf("%s, %s: %q", name, open, s.message.text)
			}
			sent(t, s)
		}
	}
}

// An end that the daemon refuses to plan is not sent.
func TestNothingToConfirm(t *testing.T) {
	for name, f := range map[string]func(*apitest.Client){
		"refused by a guard": func(f *apitest.Client) { f.Has.Plan = &api.Plan{RefusedBy: "guard", Processes: f.Has.Plan.Processes} },
		"nothing left":       func(f *apitest.Client) { f.Has.Plan = &api.Plan{State: "ended"} },
		"denied": func(f *apitest.Client) {
			f.On.Plan = func(*api.Plan) error { return api.NewError(api.CodeDenied, "no", "") }
		},
		"gone": func(f *apitest.Client) { f.On.Plan = func(*api.Plan) error { return errors.New("broken") } },
	} {
		t.Run(name, func(t *testing.T) {
			fk := newFake()
			f(fk)
			s := onOrphan(t, fk)
			s.press("x wait tab enter tab enter enter")
			sent(t, s)
		})
	}
}

// If the dialog is closed before the end is over, the result is shown later.
func TestResultAfterTheDialog(t *testing.T) {
	s := onOrphan(t, newFake())
	s.press("x wait tab")
	_, cmd := s.Update(stroke("enter"))
	s.press("esc")
	if s.dialog != nil || s.quit {
		t.Fatal("Esc does not leave it")
	}
	s.run(cmd)
	s.says("k3x9q2 build: ended, clean")
}

// During an end its dialog shows the progress.
func TestEndGoesOn(t *testing.T) {
	s := onOrphan(t, newFake())
	s.fake.Has.Begun = &api.Report{State: "ending", Processes: make([]api.Outcome, 4), Started: 9, Exited: 2, Left: 3}
	s.press("x wait tab")
	_, cmd := s.Update(stroke("enter"))
	end, ok := cmd().(tea.BatchMsg)
	if !ok {
		end = tea.BatchMsg{cmd}
	}
	var more tea.Cmd
	for _, c := range end {
		if msg, ok := c().(panes.DialogMsg); ok {
			_, more = s.Update(msg)
		}
	}
	s.says("k3x9q2 build: still ending: 4 of 7 processes dead")
	s.run(more)
	s.says("ended, clean")
}

// What cannot be read cannot be confirmed.
func TestDialogOnATinyTerminal(t *testing.T) {
	s := onOrphan(t, newFake())
	s.press("x wait")
	s.send(tea.WindowSizeMsg{Width: leastColumns - 1, Height: leastRows})
	s.press("tab enter")
	sent(t, s)
	s.send(tea.WindowSizeMsg{Width: leastColumns, Height: leastRows})
	fits(t, s.draw(), leastColumns, leastRows)
	s.says("[ Cancel ]")
}
