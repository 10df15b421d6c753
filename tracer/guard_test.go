//go:build linux

package tracer_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"golang.org/x/sys/unix"
)

// obeys is a script that runs each line that it reads, and prints the result.
const obeys = `while read c; do eval "$c"; echo "= $?"; done`

// crossings counts what leaves guarded sessions.
type crossings struct {
	t       *testing.T
	tr      *tracer.Tracer
	refuses bool // what leaves is refused
}

// after has w run a command, and compares its result and the counters: does its signal leave?
func (c *crossings) after(what string, w *workload, command string, leaves bool) {
	c.t.Helper()
	sent, refused := counter(c.t, c.tr, "signals_outside"), counter(c.t, c.tr, "signals_refused")
	w.tell(command)
	result := w.until("= ")
	sent, refused = counter(c.t, c.tr, "signals_outside")-sent, counter(c.t, c.tr, "signals_refused")-refused
	want := [3]string{"= 0", "0", "0"}
	switch {
	case leaves && c.refuses:
		want = [3]string{"= 1", "0", "1"}
	case leaves:
		want = [3]string{"= 0", "1", "0"}
	}
	if got := [3]string{result, fmt.Sprint(sent), fmt.Sprint(refused)}; got != want {
		c.t.Errorf("%s: result, sent and refused %q, want %q", what, got, want)
	}
}

// outsider starts a shell in no session, once it has set its handlers.
func outsider(t *testing.T, script string) *workload {
	t.Helper()
	w := start(t, script+"; echo ready; while :; do read x; done")
	w.goOn()
	w.until("ready")
	return w
}

// member starts a shell as the root of a session, which ends with the test.
func member(t *testing.T, tr *tracer.Tracer, script string, s tracer.SessionSpec) (*workload, tracer.SessionID) {
	t.Helper()
	w := start(t, script)
	s.KeepOnRootExit = true
	id := create(t, tr, w, s)
	t.Cleanup(func() {
		if tr.End(id, tracer.CauseEnd, 0) == nil {
			sentenced(t, tr, id)
		}
	})
	w.goOn()
	return w, id
}

// TestGuard: what is seen of a member's signals, and what is refused where the kernel takes a
// program that refuses. The result of a command that is refused is 1.
func TestGuard(t *testing.T) { onEachSide(t, testGuard) }

func testGuard(t *testing.T, tr *tracer.Tracer) {
	for _, refuse := range []bool{false, true} {
		refuses := refuse && tr.Features().RefusesSignals != tracer.RefuserNone
		t.Run(fmt.Sprintf("refuse=%v", refuse), func(t *testing.T) {
			c := &crossings{t, tr, refuses}
			tr.SetGuard(tracer.Guarding{All: true, Refuse: refuse})
			t.Cleanup(func() { tr.SetGuard(tracer.Guarding{}) })
			w, _ := member(t, tr, obeys, tracer.SessionSpec{})
			for _, k := range []struct {
				name, handlers, signal string
				leaves                 bool
			}{
				{"a request to end", ":", "TERM", true},
				{"one that is handled", "trap : TERM", "TERM", true},
				{"one that is ignored", "trap '' HUP", "HUP", false},
				{"one that cannot be handled", ":", "KILL", true},
				{"a signal that kills by default", ":", "USR1", true},
				{"of real time", ":", "40", true},
				{"a reload", "trap : USR1", "USR1", false},
				{"a stop", ":", "STOP", true},
				{"a stop by job control", ":", "TSTP", true},
				{"a continuation", ":", "CONT", false},
				{"a size", ":", "WINCH", false},
				{"urgent data", ":", "URG", false},
				{"a child", ":", "CHLD", false},
				{"a question", ":", "0", false},
			} {
				to := outsider(t, k.handlers)
				c.after(k.name, w, fmt.Sprintf("kill -%s %d", k.signal, to.pid()), k.leaves)
				// A handled signal does not end it.
				if k.leaves && refuses && running(t, tr, to.pid()) != true {
					t.Errorf("%s: it has got the signal", k.name)
				}
			}
			testGuardInside(t, c, w)
			testGuardNested(t, c)
		})
	}
}

// testGuardInside: no signal inside a session is one that leaves, and none from outside.
func testGuardInside(t *testing.T, c *crossings, w *workload) {
	c.after("its child", w, "sleep 100 & kill -KILL $!", false)
	c.after("itself", w, "trap : TERM; kill -TERM $$; trap - TERM", false)
	hold, proc := fifo(t), procfs.FS("/proc")
	w.tell("z=$( ((read x <" + hold + ") >/dev/null & echo $!; exec sleep 100 >/dev/null) & ); echo zombie $z")
	zombie := strings.Fields(w.until("zombie "))[1]
	w.until("= ")
	pid := parse(t, zombie)
	until(t, "the parent has become sleep, which does not reap", func() bool {
		stat, err := proc.Stat(pid)
		require.NoError(t, err)
		parent, err := proc.Stat(stat.Parent)
		return err == nil && parent.Comm == "sleep"
	})
	require.NoError(t, os.WriteFile(hold, []byte("\n"), 0))
	until(t, "a zombie", func() bool {
		stat, err := proc.Stat(pid)
		return err == nil && stat.State == 'Z'
	})
	c.after("a zombie", w, "kill -TERM "+zombie, false)

	sent, refused := counter(t, c.tr, "signals_outside"), counter(t, c.tr, "signals_refused")
	other, _ := member(t, c.tr, "echo ready; read x", tracer.SessionSpec{})
	other.until("ready")
	require.NoError(t, unix.Kill(int(other.pid()), unix.SIGKILL))
	other.wait()
	require.Equal(t, counter(t, c.tr, "signals_outside"), sent)
	require.Equal(t, counter(t, c.tr, "signals_refused"), refused)
}

// testGuardNested: a session inside is inside, one around or beside is not.
func testGuardNested(t *testing.T, c *crossings) {
	tr := c.tr
	const script = `sleep 100 & echo $!; sh -c 'echo $$; read go; ` + obeys + `'; ` + obeys
	w, around := member(t, tr, script, tracer.SessionSpec{})
	beside, inner := parse(t, w.line()), parse(t, w.line())
	nested, err := tr.Create(tracer.SessionSpec{Root: tracer.Identity{PID: inner}, KeepOnRootExit: true})
	require.NoError(t, err)
	inSession(t, tr, inner, nested)
	inSession(t, tr, beside, around)
	w.goOn() // to the inner shell
	sibling, _ := member(t, tr, "echo ready; read x", tracer.SessionSpec{})
	sibling.until("ready")
	c.after("a sibling", w, fmt.Sprintf("kill -STOP %d", sibling.pid()), true)
	c.after("the session around", w, fmt.Sprintf("kill -STOP %d", beside), true)

	// Not guarded itself, it is still inside the one around, and so is what it signals.
	require.NoError(t, tr.SetTerms(nested, tracer.SessionSpec{Protection: tracer.Protection{Guard: tracer.GuardOff}, KeepOnRootExit: true}))
	c.after("the session around, from one without a guard", w, fmt.Sprintf("kill -STOP %d", beside), false)
	c.after("out of the session around", w, fmt.Sprintf("kill -STOP %d", outsider(t, ":").pid()), true)

	// Neither is guarded.
	require.NoError(t, tr.SetTerms(around, tracer.SessionSpec{Protection: tracer.Protection{Guard: tracer.GuardOff}, KeepOnRootExit: true}))
	c.after("without a guard", w, fmt.Sprintf("kill -KILL %d", outsider(t, ":").pid()), false)

	// From around to inside: the inner shell leaves a child there, and the outer one continues.
	require.NoError(t, tr.SetTerms(around, tracer.SessionSpec{Protection: tracer.Protection{Guard: tracer.GuardOn}, KeepOnRootExit: true}))
	w.tell("sleep 100 & echo inside $!")
	inside := strings.Fields(w.until("inside "))[1]
	w.until("= ")
	inSession(t, tr, parse(t, inside), nested)
	w.tell("exit 0")
	c.after("a session inside", w, "kill -KILL "+inside, false)
	c.after("a sibling, from around", w, fmt.Sprintf("kill -KILL %d", sibling.pid()), true)
}

// TestGuardDefault: which sessions are guarded, by what the tracer and the session say.
func TestGuardDefault(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Dir: tracertest.Dir(t)})
	for _, k := range []struct {
		of     tracer.Guarding
		guard  tracer.Guard
		leaves bool
	}{
		{tracer.Guarding{}, tracer.GuardDefault, false},
		{tracer.Guarding{}, tracer.GuardOn, false},
		{tracer.Guarding{Some: true}, tracer.GuardDefault, false},
		{tracer.Guarding{Some: true}, tracer.GuardOn, true},
		{tracer.Guarding{All: true}, tracer.GuardDefault, true},
		{tracer.Guarding{All: true}, tracer.GuardOff, false},
	} {
		w, id := member(t, tr, obeys, tracer.SessionSpec{Protection: tracer.Protection{Guard: k.guard}})
		info, err := tr.Session(id)
		require.NoError(t, err)
		require.Equal(t, info.Guard, k.guard)
		tr.SetGuard(k.of)
		c := &crossings{t: t, tr: tr}
		c.after(fmt.Sprintf("%+v, %v", k.of, k.guard), w, fmt.Sprintf("kill -KILL %d", outsider(t, ":").pid()), k.leaves)
	}
	// What is held for another session may be there by coincidence.
	w, id := member(t, tr, obeys, tracer.SessionSpec{For: 1 << 32})
	info, err := tr.Session(id)
	require.NoError(t, err)
	require.Equal(t, info.Guarded(true), false)
	(&crossings{t: t, tr: tr}).after("a companion", w, fmt.Sprintf("kill -KILL %d", outsider(t, ":").pid()), false)
}

// TestGuardOfAgents: a session that an exec opened is guarded once a rule is known to want it.
func TestGuardOfAgents(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Dir: tracertest.Dir(t)})
	require.NoError(t, tr.SetAgents([]tracer.Agent{{Comm: agentName, KeepOnRootExit: true}}))
	tr.SetGuard(tracer.Guarding{All: true})
	w := agent(t, agentName, obeys)
	w.goOn()
	s := opened(t, tr, w.pid())
	id := s.ID
	require.Equal(t, s.Guarded(true), false)
	c := &crossings{t: t, tr: tr}
	c.after("not judged", w, fmt.Sprintf("kill -KILL %d", outsider(t, ":").pid()), false)
	require.NoError(t, tr.SetTerms(id, tracer.SessionSpec{Rule: 1, KeepOnRootExit: true}))
	c.after("judged", w, fmt.Sprintf("kill -KILL %d", outsider(t, ":").pid()), true)
	_, err := tr.Dissolve(id)
	require.NoError(t, err)
	s, err = tr.Session(id)
	require.NoError(t, err)
	require.Equal(t, s.Guarded(true), false)
	c.after("dissolved", w, fmt.Sprintf("kill -KILL %d", outsider(t, ":").pid()), false)
}

// TestCrossing: the event of a signal that leaves.
func TestCrossing(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Dir: tracertest.Dir(t)})
	events := collect(t, tr)
	tr.SetGuard(tracer.Guarding{All: true})
	w, id := member(t, tr, obeys, tracer.SessionSpec{})
	next := func() tracer.Event {
		for ev := range events {
			if ev.Type == tracer.EventCrossing {
				return ev
			}
		}
		t.Fatal("no crossing")
		return tracer.Event{}
	}
	to := outsider(t, ":")
	w.tell(fmt.Sprintf("kill -TERM %d", to.pid()))
	ev := next()
	self, err := tr.Identify(w.pid())
	require.NoError(t, err)
	x := ev.Crossing
	if ev.Process != self || ev.Session != id || x.Signal != uint8(unix.SIGTERM) || x.Refused ||
		x.To.PID != to.pid() || x.To.Start == 0 ||
		x.Session != 0 || x.UID != 0 || x.Comm != "sh" {
		t.Errorf("%+v of %+v", x, ev)
	}
	other, beside := member(t, tr, "echo ready; read x", tracer.SessionSpec{})
	other.until("ready")
	w.tell(fmt.Sprintf("kill -STOP %d", other.pid()))
	if x := next().Crossing; x.Session != beside || x.Signal != uint8(unix.SIGSTOP) {
		t.Errorf("%+v", x)
	}
}

// TestPdeathsig: when a thread of a member exits, an outsider gets the signal that it asked for. That
// is not the member's signal.
func TestPdeathsig(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Dir: tracertest.Dir(t)})
	tr.SetGuard(tracer.Guarding{All: true, Refuse: true})
	w, id := programIn(t, tr, "pdeath")
	w.goOn()
	child := parse(t, strings.Fields(w.until("member "))[1])
	root, err := tr.Identify(child)
	require.NoError(t, err)
	kept, err := tr.Create(tracer.SessionSpec{Root: root, KeptFrom: id})
	require.NoError(t, err)
	inSession(t, tr, child, kept)
	w.tell("exit")
	until(t, "the child dies", func() bool { return !running(t, tr, child) })
	require.Equal(t, running(t, tr, w.pid()), true)
	require.Equal(t, counter(t, tr, "signals_outside")+counter(t, tr, "signals_refused"), 0)
}

// TestCrossingFlood has a member send many signals outside: they must not push other events out
// of the ring.
func TestCrossingFlood(t *testing.T) {
	tr := tracertest.New(t, tracer.Options{Dir: tracertest.Dir(t)})
	tr.SetGuard(tracer.Guarding{All: true, Refuse: true})
	to := outsider(t, "trap : TERM")
	w, _ := member(
		t,
		tr,
		fmt.Sprintf(`i=0; while [ $i -lt 3000 ]; do kill -STOP %[1]d; kill -CONT %[1]d; i=$((i+1)); done 2>/dev/null; echo done; read x`, to.pid()),
		tracer.SessionSpec{},
	)
	w.until("done")
	all, err := tr.Counters()
	require.NoError(t, err)
	// A stop that the next SIGCONT overtook does not count.
	if n := all["signals_outside"] + all["signals_refused"]; n < 2000 || all["events"] > 2*512+100 || all["crossing_limited"] == 0 {
		t.Errorf("%d signals, %d events, %d left out", n, all["events"], all["crossing_limited"])
	}
}
