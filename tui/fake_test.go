package tui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/tui/picture"
)

var noon = time.Date(2026, 3, 4, 12, 3, 20, 0, time.UTC)

func at(second int) *time.Time {
	t := noon.Add(time.Duration(second) * time.Second)
	return &t
}

// screen is a model on a fake terminal, with a stopped clock.
type screen struct {
	*model
	t     testing.TB
	clock time.Time
	fake  *apitest.Client
	quit  bool
}

func newScreen(t testing.TB, f *apitest.Client, o Options, width, height int) *screen {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nothing waits
	s := &screen{t: t, clock: noon, fake: f}
	o.Now = func() time.Time { return s.clock }
	o.Select = func(words []string) (*api.Selection, error) {
		if i := slices.IndexFunc(words, func(w string) bool { return w[0] == '-' }); i >= 0 {
			return nil, errors.New("invalid selection: no such flag " + words[i])
		}
		return &api.Selection{Words: words}, nil
	}
	if o.Theme == "" {
		o.Theme = "mono"
	}
	s.model = newModel(ctx, o)
	s.send(picture.FeedMsg{Connected: f})
	s.send(tea.WindowSizeMsg{Width: width, Height: height})
	return s
}

func shown(t testing.TB, width, height int) *screen {
	s := newScreen(t, newFake(), Options{}, width, height)
	s.frames(scene())
	return s
}

// send gives the model a message, and the messages of its commands.
func (s *screen) send(msg tea.Msg) {
	_, cmd := s.Update(msg)
	s.run(cmd)
}

func (s *screen) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case nil:
	case tea.BatchMsg:
		for _, c := range msg {
			s.run(c)
		}
	case tea.QuitMsg:
		s.quit = true
	default:
		s.send(msg)
	}
}

func (s *screen) frames(frames ...*api.Frame) {
	f := picture.NewFeed(nil)
	for _, fr := range frames {
		f.Add(fr)
	}
	if msg, ok := f.Take(); ok {
		s.send(msg)
	}
}

// later advances the clock by d: the work of each second is done once.
func (s *screen) later(d time.Duration) {
	s.clock = s.clock.Add(d)
	s.run(s.second())
	s.arrange()
}

var named = map[string]tea.KeyPressMsg{
	"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
	"left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight}, "tab": {Code: tea.KeyTab}, "space": {Code: tea.KeySpace, Text: " "},
	"pgup": {Code: tea.KeyPgUp}, "pgdown": {Code: tea.KeyPgDown}, "backspace": {Code: tea.KeyBackspace},
	"ctrl+l": {Code: 'l', Mod: tea.ModCtrl},
	"ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
}

// press presses keys, separated by blanks. A word that names no key is typed, and wait lets a
// second pass.
func (s *screen) press(keys string) {
	for _, k := range strings.Fields(keys) {
		if _, isKey := named[k]; isKey {
			s.send(named[k])
		} else if k == "wait" {
			s.later(time.Second)
		} else {
			s.typed(k)
		}
	}
}

func stroke(k string) tea.KeyPressMsg {
	if msg, ok := named[k]; ok {
		return msg
	}
	return tea.KeyPressMsg{Code: []rune(k)[0], Text: k}
}

func (s *screen) typed(text string) {
	for _, r := range text {
		s.send(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
}

// sent is what the daemon was asked to end and to signal.
func (s *screen) sent() (all []string) {
	for _, end := range s.fake.Got.Ended {
		all = append(all, "end "+end)
	}
	for _, kill := range s.fake.Got.Killed {
		all = append(all, "kill "+kill)
	}
	return all
}

func (s *screen) draw() string { return s.View().Content }

// says checks that the screen has each text, and none of those behind a "!".
func (s *screen) says(all ...string) {
	s.t.Helper()
	frame := strings.Join(strings.Fields(ansi.Strip(s.draw())), " ")
	for _, text := range all {
		text, not := strings.CutPrefix(text, "!")
		if strings.Contains(frame, text) == not {
			s.t.Errorf("%dx%d: want %q: %t\n%s", s.term.width, s.term.height, text, !not, s.draw())
		}
	}
}

// ref makes a process reference whose start follows from the PID.
func ref(pid int) api.Ref { return api.Ref{PID: pid, StartNS: api.U64(pid * 1e9)} }

func live(pid, creator, parent int, argv ...string) api.Process {
	uid, c, p := 1000, ref(creator), ref(parent)
	return api.Process{Ref: ref(pid), Session: "k3x9q2", Comm: argv[0], Argv: argv, Exe: "/usr/bin/" + argv[0], UID: &uid, State: "live", Task: "S",
		Creator: &c, Parent: &p, Started: at(pid - 4200), Cgroup: "/user.slice/user-1000.slice",
		Evidence: &api.Evidence{Kind: "fork", Confidence: "strong"}, CPUSeconds: 1.5, RSSBytes: 3 << 20}
}

func exited(pid, creator, code int, argv ...string) api.Process {
	p := live(pid, creator, creator, argv...)
	p.State, p.Task, p.ExitCode, p.Exited = "exited", "", &code, at(-12)
	return p
}

func build() api.Session {
	root := live(4121, 4100, 4100, "sh", "-c", "make & wait")
	owner := ref(4100)
	return api.Session{ID: "k3x9q2", Name: "build", UID: 1000, State: "active", Root: &root, Owner: &owner, Live: 6, Peak: 9, Forks: 17,
		Orphans: 1, Zombies: 1, CPUSeconds: 75.5, RSSBytes: 123 << 20, Ports: []int{8080}, Started: at(-79), GraceSeconds: 5, Level: 4, Mode: "observe", Evidence: "root"}
}

// scene is the first frame of a host that has a bit of everything.
func scene() *api.Frame {
	root := live(4121, 4100, 4100, "sh", "-c", "make & wait")
	root.Evidence.Kind = "root"
	orphan := live(4130, 4122, 4100, "sleep", "300")
	orphan.Orphan = true
	zombie := exited(4127, 4123, 0, "as")
	zombie.State, zombie.ExitCode, zombie.Signal = "zombie", nil, "SIGSEGV"
	sibling := live(4128, 4123, 4121, "cc", "-o", "a b", "x.c")
	weak := live(4129, 4123, 4123, "adopted-one")
	weak.Evidence = &api.Evidence{Kind: "adopted", Source: "ppid", Confidence: "weak"}
	f := &api.Frame{Head: api.Head{Kind: "snapshot"}, Rev: 1, TimeNS: 4200e9,
		Upsert: []api.Process{root, exited(4122, 4121, 0, "sh"), orphan, live(4123, 4121, 4121, "make", "-j2"),
			exited(4125, 4123, 1, "cpp"), exited(4126, 4123, 1, "cpp"), zombie, sibling, weak},
		Sessions: []api.Session{build()},
		Status:   &api.WatchStatus{Level: 4, Mode: "enforce", Forks: 1000, Live: 7, SelfCheck: &api.SelfCheck{OK: true, At: at(-30)}}}
	for i := range 412 {
		f.Upsert = append(f.Upsert, exited(5000+i, 4123, 0, "bash"))
	}
	nested := api.Session{ID: "n0n0n0", Name: "nested", UID: 1000, State: "active", Parent: "k3x9q2", Root: new(live(4150, 4123, 4123, "agent")),
		Live: 1, Started: at(-50), GraceSeconds: 1, Level: 4, Mode: "observe"}
	agent := live(4150, 4123, 4123, "agent")
	agent.Session = "n0n0n0"
	over := api.Session{ID: "m8p4z1", UID: 0, State: "condemned", Live: 1, Root: new(live(4160, 1, 1, "dd")), Deadline: at(4), EndReason: "end",
		Started: at(-40), GraceSeconds: 5, Level: 4, Mode: "enforce"}
	dd, tee := live(4160, 1, 1, "dd", "if=/dev/mem"), exited(4161, 4160, 0, "tee")
	dd.Session, dd.Task, tee.Session, tee.ExitCode, tee.Signal = "m8p4z1", "D", "m8p4z1", nil, "SIGKILL"
	f.Upsert = append(f.Upsert, agent, dd, tee)
	f.Sessions = append(f.Sessions, nested, over)
	return f
}

var heldPort = api.Port{Proto: "tcp6", Addr: "::1", Port: 8080, PID: 4130, StartNS: 4130e9}
var heldLock = api.Lock{Type: "flock", Mode: "write", Path: "/var/x\x1b[31m.db", PID: 4130, Waiting: []int{77}}

func newFake() *apitest.Client {
	owner := api.Process{Ref: ref(4100), Comm: "lineage", State: "live"}
	s := build()
	orphan := live(4130, 4122, 4100, "sleep", "300")
	orphan.Cwd, orphan.Container = "/src", &api.Container{ID: "0123456789abcdef"}
	middle := exited(4122, 4121, 0, "sh")
	root := live(4121, 4100, 4100, "sh", "-c", "make & wait")
	fork := api.Evidence{Kind: "fork", Confidence: "strong"}
	f := &apitest.Client{Has: apitest.Has{
		Sessions: []api.Session{s, {ID: "n0n0n0"}, {ID: "m8p4z1"}},
		Leaks:    &api.Leaks{Items: []api.Leak{{Ports: []api.Port{heldPort}}}},
		Whys: map[int]*api.Why{4130: {Process: orphan, Parent: &owner, Session: &s, Edges: []api.Edge{
			{Child: orphan, Creator: &api.EdgeEnd{Ref: ref(4122), Comm: "sh", Exited: at(-12)}, Kind: "fork", Evidence: fork,
				Reparented: []api.Reparents{{Time: at(-12), From: new(ref(4122)), To: new(ref(4100))}}},
			{Child: middle, Creator: &api.EdgeEnd{Ref: ref(4121), Comm: "sh", Alive: true}, Kind: "fork", Evidence: fork},
			{Child: root, Kind: "root", Evidence: api.Evidence{Kind: "root", Confidence: "strong"}},
		}, Holds: &api.Holds{Ports: []api.Port{heldPort}, Locks: []api.Lock{heldLock}}}},
		Plan: &api.Plan{Session: "k3x9q2", Name: "build", State: "active", Token: "5f3a", Processes: []api.PlanProcess{
			{Process: root, Why: "root", Killable: true},
			{Process: live(4123, 4121, 4121, "make", "-j2"), Why: "forked by 4121 sh", Killable: true},
			{Process: orphan, Why: "forked by 4122 sh", Killable: true, Ports: []api.Port{heldPort}, Locks: []api.Lock{heldLock}},
			{Process: live(4128, 4123, 4121, "cc", "-o", "a b", "x.c"), Why: "forked by 4123 make", Reason: "state D (nfs_wait)"},
		}},
		Begun: &api.Report{Session: "k3x9q2", State: "ending"},
		Report: &api.Report{Session: "k3x9q2", Name: "build", State: "ended", Verdict: "clean", DurationMS: 12.3, Started: 17, Exited: 13, Killed: 1,
			Processes: []api.Outcome{
				{Ref: ref(4121), Comm: "sh", Argv: []string{"sh", "-c", "make & wait"}, Outcome: "term"},
				{Ref: ref(4123), Comm: "make", Outcome: "self"},
				{Ref: ref(4130), Comm: "sleep", Argv: []string{"sleep", "300"}, Outcome: "kill"},
				{Ref: ref(4128), Comm: "cc", Outcome: "kept", Why: "rule compilers"},
			}, PortsFreed: []api.Port{heldPort}, LocksReleased: []api.Lock{heldLock}},
		Killed: &api.Killed{Outcome: "sent", Process: orphan},
	}}
	f.On.Why = func(name string) (*api.Why, error) {
		if r, _ := api.ParseRef(name); f.Has.Whys[r.PID] != nil {
			return f.Has.Whys[r.PID], nil
		}
		return nil, api.NewError(api.CodeNotFound, "not found", "")
	}
	return f
}
