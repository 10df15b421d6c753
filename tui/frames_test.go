package tui

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/exp/golden"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

// states are what the screen can look like, each made from the scene.
var states = []struct {
	name string
	do   func(*screen)
}{
	{"home", func(*screen) {}},
	{"exited shown", func(s *screen) { s.press("e") }},
	{"sessions", func(s *screen) { s.press("z") }},
	{"sessions by memory", func(s *screen) { s.busy(); s.press("z M") }},
	{"ended sessions", func(s *screen) { s.frames(ended()) }},
	{"search being typed", func(s *screen) { s.press("/"); s.typed("s") }},
	{"search", func(s *screen) { s.press("e / CPP enter") }},
	{"filter asked", func(s *screen) { s.press("f") }},
	{"events", func(s *screen) { s.withEvents(); s.press("v"); s.take() }},
	{"events focused", func(s *screen) { s.withEvents(); s.press("v tab tab"); s.take(); s.press("up") }},
	{"waiting", func(s *screen) {
		s.model.link = link{}
		s.forget()
		s.send(picture.FeedMsg{Away: &api.UnreachableError{Socket: "/run/lineage/lineage.sock", Err: fs.ErrNotExist}})
	}},
	{"folded", func(s *screen) { s.press("j h") }},
	{"orphan", func(s *screen) { s.press("/ 4130 enter esc") }},
	{"details", func(s *screen) { s.press("? esc / 4130 enter esc enter") }},
	{"details scrolled", func(s *screen) { s.press("/ 4130 enter esc i down down pgdown") }},
	{"calls", func(s *screen) { s.frames(calls()) }},
	{"timeline of calls", func(s *screen) { s.frames(calls()); s.press("T") }},
	{"by tool call", func(s *screen) { s.frames(calls()); s.press("b") }},
	{"end of the list", func(s *screen) { s.press("G") }},
	{"filter", func(s *screen) { s.press("e f n0n0n0 enter") }},
	{"filter being typed", func(s *screen) { s.press("f neste") }},
	{"filter wrong", func(s *screen) { s.press("f"); s.typed("4130 --state x") }},
	{"filter without match", func(s *screen) { s.press("f nosuch enter") }},
	{"sort in the tree", func(s *screen) { s.press("s") }},
	{"orphans", func(s *screen) { s.press("o") }},
	{"timeline", func(s *screen) { s.press("T") }},
	{"timeline zoomed", func(s *screen) { s.press("T + + j j h") }},
	{"help", func(s *screen) { s.press("?") }},
	{"end asked", func(s *screen) {
		s.fake.On.Plan = func(*api.Plan) error { return errors.New("x") }
		s.dialogWithout()
	}},
	{"end", func(s *screen) { s.press("x") }},
	{"end confirmed", func(s *screen) { s.press("x wait tab") }},
	{"end now", func(s *screen) { s.press("x wait tab tab") }},
	{"end result", func(s *screen) { s.press("x wait tab enter") }},
	{"end left", func(s *screen) {
		r := *s.fake.Has.Report
		r.Verdict, r.Left = "left", 1
		r.Processes = append([]api.Outcome{{Ref: ref(4128), Comm: "cc", Outcome: "left", Why: "state D (nfs_wait)"}}, r.Processes[:3]...)
		s.fake.Has.Begun = &r
		s.press("x wait tab tab enter")
	}},
	{"end result line", func(s *screen) {
		s.press("x wait tab enter wait enter")
	}},
	{"end refused", func(s *screen) {
		s.fake.Has.Plan = &api.Plan{State: "active", RefusedBy: "guard: an ancestor of the caller", Processes: []api.PlanProcess{}}
		s.press("x")
	}},
	{"end denied", func(s *screen) {
		s.fake.On.Plan = func(*api.Plan) error {
			return api.NewError(api.CodeDenied, "plan k3x9q2: not permitted: it belongs to uid 1001", "run with sudo")
		}
		s.press("x")
	}},
	{"kill", func(s *screen) { s.press("/ 4130 enter esc X") }},
	{"kill result", func(s *screen) {
		s.press("/ 4130 enter esc X wait tab tab enter")
	}},
	{"kill of an exited one", func(s *screen) { s.press("/ 4122 enter esc X") }},
	{"lost", func(s *screen) { s.status(func(st *api.WatchStatus) { st.Lost = 12 }) }},
	{"degraded", func(s *screen) {
		s.status(func(st *api.WatchStatus) {
			st.Degraded = []string{"exec without argv", "no reparent events"}
			st.SelfCheck = &api.SelfCheck{Why: "the canary was not seen"}
			st.Breaker = api.Breaker{Open: true, UIDs: []int{1000}}
			st.Lost = 3
		})
		d := build()
		d.Degraded = []string{"a birth was missed"}
		s.frames(&api.Frame{Head: api.Head{Kind: "diff"}, Sessions: []api.Session{d}})
	}},
	{"observe", func(s *screen) { s.status(func(st *api.WatchStatus) { st.Mode = "observe" }) }},
	{"read only", func(s *screen) { s.opts.ReadOnly = true; s.arrange(); s.press("x") }},
	{"away", func(s *screen) {
		s.later(2 * time.Second)
		s.send(picture.FeedMsg{Away: &api.UnreachableError{Socket: "/run/lineage/lineage.sock", Err: errors.New("connection refused")}})
		s.later(7 * time.Second)
	}},
	{"empty", func(s *screen) {
		s.frames(&api.Frame{Head: api.Head{Kind: "snapshot"}, Status: &api.WatchStatus{Level: 4, Mode: "enforce"}})
	}},
	{"busy", func(s *screen) { s.busy() }},
	{"hostile", func(s *screen) { s.frames(hostile()) }},
	{"hostile details", func(s *screen) { s.frames(hostile()); s.press("G i") }},
}

// colored are states that together have all colours.
var colored = []string{"home", "exited shown", "sessions", "events focused", "timeline", "timeline of calls", "end now", "end result", "degraded"}

func (s *screen) status(change func(*api.WatchStatus)) {
	st := s.model.link.status
	change(&st)
	s.frames(&api.Frame{Head: api.Head{Kind: "diff"}, Status: &st})
}

// busy is 40 seconds of growing forks, CPU time and memory.
func (s *screen) busy() {
	for i := range 40 {
		p := live(4123, 4121, 4121, "make", "-j2")
		p.CPUSeconds, p.RSSBytes = float64(i*i)/50, uint64(i)<<20
		b := build()
		b.CPUSeconds, b.RSSBytes = 75.5+float64(i*i)/40, uint64(100+i)<<20
		st := s.model.link.status
		st.Forks += uint64(i * i)
		s.frames(&api.Frame{Head: api.Head{Kind: "diff"}, TimeNS: api.U64(4200+i) * 1e9, Upsert: []api.Process{p}, Sessions: []api.Session{b}, Status: &st})
		s.later(time.Second)
	}
}

// ended is 80 sessions that are over, older than the live ones.
func ended() *api.Frame {
	f := &api.Frame{Head: api.Head{Kind: "diff"}}
	for i := range 80 {
		root := exited(100+i, 1, 0, "true")
		f.Sessions = append(f.Sessions, api.Session{ID: fmt.Sprintf("e%05d", i), Name: "job", State: api.StateEnded, EndReason: "root_exit", Verdict: "clean",
			Root: &root, Started: at(-90), Ended: at(-12), Mode: "observe"})
	}
	return f
}

// calls has processes that tool calls of an agent started, one through a shell that is
// dead, and one that two calls may have started.
func calls() *api.Frame {
	call := func(id string, from, to int) api.Call {
		c := api.Call{ID: id, Tool: "Bash", Agent: new(ref(4123)), Began: at(from), Claimed: true}
		if to != 0 {
			c.Ended = at(to)
		}
		return c
	}
	test, serve, edit := call("toolu_01Qm5KvAb3", -70, -40), call("toolu_01Rx7LwCd4", -30, 0), call("42", -35, -20)
	edit.Tool = "mcp__editor__replace"
	shell, server := exited(4131, 4123, 0, "bash", "-c", "./serve &"), live(4132, 4131, 4100, "serve")
	server.Orphan = true
	both := live(4133, 4123, 4123, "sleep", "9")
	tests := exited(4134, 4123, 2, "npm", "test")
	shell.Calls, server.Calls, both.Calls, tests.Calls = []api.Call{serve}, []api.Call{serve}, []api.Call{serve, edit}, []api.Call{test}
	shell.Started, server.Started, both.Started, tests.Started = at(-29), at(-28), at(-25), at(-69)
	shell.Exited, tests.Exited = at(-27), at(-41)
	return &api.Frame{Head: api.Head{Kind: "diff"}, Upsert: []api.Process{shell, server, both, tests}}
}

// withEvents gives the session some events of each type.
func (s *screen) withEvents() {
	shell, exit := live(4123, 4121, 4121, "make", "-j2"), exited(4125, 4123, 1, "cpp")
	for i := range 12 {
		ev := api.Event{Head: api.Head{Kind: "event"}, Seq: api.U64(i + 1), Time: at(i - 60), Type: []api.EventType{"fork", "exec", "exit", "reparent"}[i%4],
			Session: "k3x9q2", Process: &shell}
		switch ev.Type {
		case "exit":
			ev.Process = &exit
		case "reparent":
			ev.To = new(ref(4100))
		}
		s.fake.Has.Events = append(s.fake.Has.Events, ev)
	}
	s.fake.Has.Events = append(s.fake.Has.Events, api.Event{Seq: 13, Time: at(-1), Type: "session", Session: "k3x9q2", State: "ending", Reason: "root_exit"},
		api.Event{Seq: 14, Time: at(-1), Type: "lost", Session: "k3x9q2", Count: 3, Where: "ring"})
}

func (s *screen) take() { s.events.Take(); s.arrange() }

func (s *screen) forget() { s.view.Apply(&picture.Batch{Reset: true}) }

// dialogWithout opens the dialog without a plan yet.
func (s *screen) dialogWithout() { s.Update(named["down"]); s.Update(stroke("x")) }

// hostile is what a process can try on a screen.
func hostile() *api.Frame {
	bad := live(7001, 4121, 4121, "\x1b[31mred", "\x1b]52;c;ZXZpbA==\a", "a\nlineage: all ended\r\n", "exe.\u202etxt",
		"\xff\xfe\x9b31m", "名前名前名前", "e\u0301e\u0301", "👩‍👩‍👧")
	bad.Cgroup = "/\x1b[2J\u2066"
	bad.Exe = "/tmp/\x1b]0;title\a"
	s := build()
	s.Name = "\x1b[5mblink\u202e"
	f := scene()
	f.Upsert = append(f.Upsert[:1], bad)
	f.Sessions = []api.Session{s}
	return f
}

func TestFrames(t *testing.T) {
	for _, size := range []struct{ width, height int }{{40, 10}, {80, 24}, {120, 30}, {200, 50}} {
		for _, st := range states {
			for _, look := range []struct {
				name string
				Options
			}{{"", Options{}}, {"ascii", Options{ASCII: true}}, {"auto", Options{Theme: "auto"}},
				{"dark", Options{Theme: "dark"}}, {"light", Options{Theme: "light"}}} {
				colors := look.Theme != "" && look.Theme != "auto"
				if look.name != "" && size.width != 80 || colors && !slices.Contains(colored, st.name) {
					continue // colours do not depend on the size
				}
				name := strings.TrimSpace(fmt.Sprintf("%s %dx%d %s", st.name, size.width, size.height, look.name))
				t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
					s := newScreen(t, newFake(), look.Options, size.width, size.height)
					s.frames(scene())
					st.do(s)
					got := s.draw()
					fits(t, got, size.width, size.height)
					if look.ASCII {
						for _, r := range got {
							if r > unicode.MaxASCII && st.name != "hostile" && st.name != "hostile details" {
								t.Fatalf("%q is no ASCII", r)
							}
						}
					}
					golden.RequireEqual(t, got+"\n")
				})
			}
		}
	}
}

// No word of the help is cut off.
func TestHelpIsWhole(t *testing.T) {
	s := shown(t, 40, 10)
	if text := strings.Join(s.helpLines(40), "\n"); strings.Contains(text, s.term.theme.Dots) {
		t.Errorf("cut off:\n%s", text)
	}
}

// styled matches bold, faint, underlined, reverse, colours, and their end.
var styled = regexp.MustCompile(`^((0?|1|2|4|7|3[0-79]|4[0-79]|9[0-7]|[34]8;5;\d+)(;|$))+$`)

// fits checks that a frame is as large as the screen, and has only text and colours.
func fits(t testing.TB, frame string, width, height int) {
	t.Helper()
	lines := strings.Split(frame, "\n")
	if len(lines) != height && width >= leastColumns && height >= leastRows {
		t.Errorf("%d lines, want %d", len(lines), height)
	}
	for i, l := range lines {
		if w := ansi.StringWidth(l); w > width {
			t.Errorf("line %d is %d wide: %q", i, w, l)
		}
		for j, r := range l {
			if r == '\x1b' && strings.HasPrefix(l[j:], "\x1b[") {
				end := strings.IndexByte(l[j:], 'm')
				if end < 0 {
					t.Fatalf("line %d has an escape that does not end: %q", i, l)
				}
				if !styled.MatchString(l[j+2 : j+end]) {
					t.Fatalf("line %d has an escape that is no style: %q", i, l)
				}
				continue
			}
			if !unicode.IsPrint(r) {
				t.Errorf("line %d has %q", i, r)
			}
		}
	}
}
