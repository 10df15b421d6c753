//go:build linux

package supervise

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// undying is a family that nothing ends.
type undying struct {
	all  []procfs.Stat
	sent []unix.Signal
}

func (u *undying) signal(sig unix.Signal) { u.sent = append(u.sent, sig) }
func (u *undying) list() []procfs.Stat    { return u.all }
func (u *undying) empty(bool) bool        { return false }
func (u *undying) scope() string          { return "" }

// endingOf is the end of what a command left that has exited.
func endingOf(f family, signals ...os.Signal) *ending {
	c := &caught{children: make(chan os.Signal), to: make(chan os.Signal, len(signals))}
	for _, s := range signals {
		c.to <- s
	}
	j := newJob(0, nil, false, c)
	j.exited = true
	e := newEnding(f, j)
	e.patience = 3 * lookEvery
	return e
}

// An end with a process that does not die is never called clean.
func TestEndingOfTheUndying(t *testing.T) {
	parent, err := proc.Stat(uint32(os.Getppid()))
	require.NoError(t, err)
	zombie := procfs.Stat{PID: 4321, Parent: parent.PID, Start: 1, Comm: "dead", State: 'Z', Threads: 1}
	for name, c := range map[string]struct {
		family   []procfs.Stat
		signals  []os.Signal
		verdict  api.Verdict
		why      string
		outcomes string
		zombies  int
	}{
		"a process":             {family: []procfs.Stat{parent}, verdict: "left", why: "alive 150ms after SIGKILL", outcomes: "left"},
		"a process and zombies": {family: []procfs.Stat{zombie, parent}, verdict: "left", why: "alive 150ms after SIGKILL", outcomes: "left", zombies: 1},
		"zombies":               {family: []procfs.Stat{zombie}, verdict: "clean", zombies: 1},
		"nobody that is shown":  {verdict: "unknown", why: "a process is left that /proc does not show"},
		"called off": {family: []procfs.Stat{parent}, signals: []os.Signal{unix.SIGINT, unix.SIGTERM}, verdict: "unknown",
			why: "the wait was interrupted", outcomes: "left"},
	} {
		t.Run(name, func(t *testing.T) {
			u := &undying{all: c.family}
			rep := endingOf(u, c.signals...).run(lookEvery)
			if rep.Verdict != c.verdict || rep.VerdictWhy != c.why || rep.ConfirmedEmpty || len(rep.Zombies) != c.zombies {
				t.Errorf("receipt %+v", rep)
			}
			var outcomes []string
			for _, p := range rep.Processes {
				outcomes = append(outcomes, string(p.Outcome))
				if !strings.HasPrefix(p.Why, "state ") {
					t.Errorf("it is left as %q", p.Why)
				}
			}
			if got := strings.Join(outcomes, " "); got != c.outcomes || rep.Left != len(outcomes) {
				t.Errorf("outcomes %q, %d left", got, rep.Left)
			}
			if c.zombies == 1 && (rep.Zombies[0].Reaper == nil || rep.Zombies[0].Reaper.PID != int(parent.PID) || rep.Zombies[0].Reaper.Comm != parent.Comm) {
				t.Errorf("zombie %+v", rep.Zombies[0])
			}
			if !slices.Contains(u.sent, unix.SIGTERM) || !slices.Contains(u.sent, unix.SIGKILL) {
				t.Errorf("sent %v", u.sent)
			}
		})
	}
}

// breeding is a family in which a child is born during each of the first SIGKILLs.
type breeding struct {
	undying
	kills, births int
}

func (b *breeding) signal(sig unix.Signal) {
	if sig == unix.SIGKILL {
		b.kills++
	}
}

func (b *breeding) empty(bool) bool { return b.kills > b.births }

// A child that is born during a SIGKILL gets the next one.
func TestEndingOfTheBreeding(t *testing.T) {
	parent, _ := proc.Stat(uint32(os.Getppid()))
	e := endingOf(&breeding{undying: undying{all: []procfs.Stat{parent}}, births: 2})
	e.patience = deadline
	if rep := e.run(0); rep.Verdict != api.VerdictClean || !rep.ConfirmedEmpty {
		t.Errorf("receipt %+v", rep)
	}
}

// A reused PID is another process, with its own outcome.
func TestEndingTellsReusedPIDsApart(t *testing.T) {
	u := &undying{all: []procfs.Stat{{PID: uint32(os.Getppid()), Start: 1, Comm: "first", State: 'S'}}}
	e := endingOf(u)
	e.look()
	e.outcome = api.OutcomeTerm
	u.all = []procfs.Stat{{PID: uint32(os.Getppid()), Start: 2, Comm: "second", State: 'S'}}
	e.look()
	rep := e.report(false)
	if len(rep.Processes) != 2 || rep.Processes[0].Outcome != api.OutcomeTerm || rep.Processes[1].Outcome != api.OutcomeLeft || rep.Processes[1].Comm != "second" {
		t.Errorf("%+v", rep.Processes)
	}
}

// A process that reuses the PID of a descendant, and is not one, gets no signal.
func TestWalkNeverHitsAnother(t *testing.T) {
	sleep := exec.Command("sleep", "60")
	require.NoError(t, sleep.Start())
	defer sleep.Wait()
	defer sleep.Process.Kill()
	is, err := proc.Stat(uint32(sleep.Process.Pid))
	require.NoError(t, err)
	was := is
	was.Start--
	elsewhere := is
	elsewhere.Parent = 1
	dead := pidfdOfTheDead(t)
	for name, c := range map[string]struct {
		seen     procfs.Stat
		parentFD int
		want     bool
	}{
		"another start":       {was, -1, false},
		"another parent":      {elsewhere, -1, false},
		"its parent has died": {is, dead, false},
		"itself":              {is, -1, true},
	} {
		w := walk{sig: unix.SIGWINCH, sent: make(map[uint32]uint64), byParent: map[uint32][]procfs.Stat{c.seen.Parent: {c.seen}}}
		if got := w.below(c.seen.Parent, c.parentFD, 0); got != c.want {
			t.Errorf("%s: found %v, want %v", name, got, c.want)
		}
	}
	w := walk{sent: make(map[uint32]uint64)}
	if !w.first(is) || w.first(is) || !w.first(was) {
		t.Error("each process gets the signal once, and another start is another process")
	}
}

func pidfdOfTheDead(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	require.NoError(t, cmd.Start())
	fd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	cmd.Wait()
	return fd
}
