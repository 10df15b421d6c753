package protocol

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
)

func members(n int, tasks, pids, sessions int, times map[action]int) Config {
	return Config{Level: 4, Tasks: tasks, PIDs: pids, Sessions: sessions, Entries: 3, Members: n, Times: times}
}

func (m Config) with(change func(*Config)) Config {
	change(&m)
	return m
}

func limit(n int) func(*Config) { return func(m *Config) { m.Limit = n } }

func second(m *Config)  { m.Second = true }
func level2(m *Config)  { m.Level = 2 }
func agents(m *Config)  { m.Agents = true }
func carried(m *Config) { m.Carried = true }
func passed(m *Config)  { m.Whole = true }
func two(m *Config)     { m.Busy = 2 }

type bounds = map[action]int

// The runs. Each is about one part of the protocol.
var (
	births   = members(2, 3, 3, 1, bounds{end: 1})
	reuse    = members(1, 3, 2, 1, bounds{outsider: 1, skip: 1})
	skips    = members(1, 2, 2, 1, bounds{end: 1, skip: 1}).with(second)
	settles  = members(1, 2, 2, 1, bounds{settle: 2}).with(second)
	patience = members(1, 2, 2, 1, bounds{endPatient: 1, end: 1, dump: 1})
	nests    = members(2, 2, 2, 2, bounds{exec: 1, end: 1, dissolve: 1, release: 1}).with(agents)
	zombies  = members(2, 2, 2, 2, bounds{exec: 1, settle: 1, release: 1, exit: 1, fork: 0}).with(agents)
	creates  = members(0, 2, 2, 1, bounds{outsider: 1, create: 1, end: 1})
	younger  = members(1, 3, 2, 2, bounds{outsider: 1, create: 1, fork: 1, exit: 1})
	inside   = members(2, 3, 3, 2, bounds{create: 1, end: 1})
	repairs  = members(0, 3, 3, 1, bounds{outsider: 1, create: 1, reconcile: 1})
	again    = members(2, 3, 3, 2, bounds{create: 1, dissolve: 1, reconcile: 1, fork: 1, exit: 0})
	protects = members(1, 2, 2, 1, bounds{protect: 1, outsider: 1, end: 1})
	silent   = members(2, 2, 2, 1, bounds{end: 1}).with(level2)
	lossy    = members(1, 2, 2, 1, bounds{end: 1, lose: 1}).with(level2)
	keeps    = members(2, 3, 2, 2, bounds{keep: 1})
	takes    = members(2, 3, 3, 2, bounds{exec: 1, takeOver: 1, exit: 0, fork: 1}).with(agents)
	deaths   = members(2, 2, 2, 2, bounds{exec: 1, takeOver: 1, exit: 1, fork: 0}).with(agents)
	room     = members(2, 3, 3, 3, bounds{exec: 1, takeOver: 1, exit: 0, fork: 1}).with(agents)
	twice    = members(0, 1, 1, 2, bounds{outsider: 1, exec: 1, takeOver: 1}).with(agents)
	heirs    = members(1, 2, 2, 2, bounds{exec: 2, takeOver: 1, exit: 0, fork: 1}).with(agents)
	late     = members(1, 2, 2, 3, bounds{exit: 0, fork: 1}).with(agents).with(carried)
	reused   = members(1, 3, 2, 3, bounds{outsider: 1, fork: 1, exit: 1, exec: 1}).with(agents).with(carried)
	unwaited = members(1, 3, 3, 1, nil).with(limit(2))
	full     = members(1, 3, 3, 1, nil).with(limit(3))
	let      = members(2, 3, 3, 2, bounds{create: 1, dissolve: 1, exit: 0, fork: 1}).with(limit(3))
	once     = members(1, 3, 2, 3, bounds{outsider: 1, fork: 1, exit: 1, exec: 1, takeOver: 1}).with(agents).with(passed)
	restart  = members(1, 3, 2, 3, bounds{outsider: 1, fork: 1, exit: 1, exec: 2, takeOver: 1}).with(agents).with(passed).with(two)
	halts    = members(1, 2, 2, 2, bounds{outsider: 1, fork: 1, exit: 0, exec: 1, halt: 1}).with(agents)
	nested   = members(1, 2, 2, 2, bounds{fork: 1, exit: 0, exec: 1, execOther: 1, halt: 1}).with(agents)
	asked    = members(0, 2, 2, 2, bounds{outsider: 1, fork: 0, exit: 0, create: 1, protect: 1, exec: 1, execOther: 1, halt: 1}).with(agents)
	handed   = members(0, 1, 1, 1, bounds{outsider: 1, fork: 0, exit: 0, exec: 1, halt: 1, takeOver: 1}).with(agents)
	kept     = members(2, 3, 2, 3, bounds{outsider: 1, exec: 1, keep: 1, halt: 1, exit: 0}).with(agents)
	storm    = members(1, 3, 3, 3, bounds{outsider: 1, exit: 1, exec: 2, halt: 1}).with(agents)
	halved   = members(1, 3, 3, 3, bounds{outsider: 1, fork: 1, exit: 0, exec: 1, halt: 1, takeOver: 1}).with(agents)
	pauses   = members(1, 2, 2, 1, bounds{fork: 1, exit: 0, pause: 1, resume: 1})
	renewed  = members(1, 2, 2, 1, bounds{fork: 1, exit: 0, pause: 2, resume: 1})
	nudged   = members(2, 2, 2, 1, bounds{fork: 0, exit: 1, pause: 1, resume: 1, suspend: 1, wake: 1}).with(two)
	retried  = members(1, 1, 1, 1, bounds{fork: 0, exit: 0, pause: 2, resume: 2, wake: 1})
	dies     = members(1, 2, 2, 1, bounds{fork: 1, exit: 0, endPatient: 1, pause: 1, resume: 1})
	freed    = members(3, 3, 3, 1, bounds{fork: 0, exit: 1, dissolve: 1, pause: 1, resume: 1}).with(two)
	inner    = members(2, 2, 2, 2, bounds{fork: 0, exit: 0, create: 1, endPatient: 1, pause: 1, resume: 1})
	stills   = members(2, 3, 3, 1, bounds{fork: 1, exit: 0, pause: 1, resume: 1, exec: 1}).with(level2)
	passes   = members(2, 3, 3, 1, bounds{fork: 1, exit: 1, pause: 2, resume: 1, end: 1, wake: 1}).with(second)
	spares   = members(2, 3, 2, 2, bounds{outsider: 1, fork: 0, exit: 1, create: 1, strike: 1}).with(two)
	regained = members(1, 2, 2, 2, bounds{fork: 1, exit: 1, create: 1, dissolve: 1})
	unreaped = members(2, 3, 3, 2, bounds{outsider: 1, fork: 1, exit: 1, reap: 0, create: 1, dissolve: 1}).with(two)
	remade   = members(2, 3, 2, 2, bounds{fork: 1, exit: 1, create: 1, dissolve: 1}).with(two)
	whole    = members(1, 3, 2, 3, bounds{outsider: 1, fork: 1, exit: 2, exec: 2, end: 1, takeOver: 1}).with(agents)
)

// TestHolds: no interleaving of these runs breaks a promise.
func TestHolds(t *testing.T) {
	for name, m := range map[string]Config{
		"reuse": reuse, "again": again, "skips": skips, "creates": creates, "protects": protects, "silent": silent, "lossy": lossy, "takes": takes, "late": late, "room": room, "heirs": heirs, "twice": twice,
		"halts": halts, "stalled": halts.with(func(m *Config) { m.Stall = true }), "nested": nested, "asked": asked, "handed": handed,
		"pauses": pauses, "renewed": renewed, "nudged": nudged, "retried": retried, "dies": dies, "freed": freed, "stills": stills,
		"unwaited": unwaited, "full": full, "let": let, "spares": spares, "regained": regained,
	} {
		t.Run(name, func(t *testing.T) {
			if f := holds(t, m, 1<<20); f.Cut {
				t.Errorf("there are more than %d states", f.States)
			}
		})
	}
}

// TestReduced: a search that reduces states comes to each one in which no CPU is at a step, but for what has no effect.
func TestReduced(t *testing.T) {
	for name, m := range map[string]Config{
		"reuse": reuse, "creates": creates, "takes": takes, "silent": silent, "asked": asked, "heirs": heirs, "twice": twice, "late": late,
	} {
		t.Run(name, func(t *testing.T) {
			want := m.with(func(m *Config) { m.Single = true })
			if f, all := m.Search(1<<20), want.Search(1<<20); f.Idle != all.Idle || f.States >= all.States {
				t.Errorf("%d of %d states, want %d, of more than %d", f.Idle, f.States, all.Idle, all.States)
			}
		})
	}
}

// TestHoldsLarge is the same for runs that take minutes and gigabytes, as far as LNGTEST_STATES goes:
// make model.
func TestHoldsLarge(t *testing.T) {
	most := large(t)
	for name, m := range map[string]Config{
		"births": births, "settles": settles, "patience": patience, "nests": nests, "zombies": zombies, "inside": inside, "repairs": repairs,
		"keeps": keeps, "deaths": deaths, "kept": kept, "storm": storm, "halved": halved, "inner": inner, "passes": passes, "unreaped": unreaped, "reused": reused, "once": once, "restart": restart, "whole": whole,
	} {
		t.Run(name, func(t *testing.T) { holds(t, m, most) })
	}
}

// large is how many states a large search may visit.
func large(t *testing.T) int {
	most, err := strconv.Atoi(os.Getenv("LNGTEST_STATES"))
	if err != nil {
		t.Skip("LNGTEST_STATES is not set")
	}
	return most
}

func holds(t *testing.T, m Config, most int) Found {
	t.Helper()
	began := time.Now()
	f := m.Search(most)
	_, peak, _ := strings.Cut(string(require.ReadFile(t, "/proc/self/status")), "VmHWM:")
	peak, _, _ = strings.Cut(strings.TrimSpace(peak), "\n")
	t.Logf("figure: %d states, %d moves, depth %d, to the end: %v, %.0f s, the process at most %s", f.States,
		f.Moves, f.Depth, !f.Cut, time.Since(began).Seconds(), peak)
	if f.Broken != "" {
		t.Errorf("%s, after %d steps:\n%s", f.Broken, len(f.Path), strings.Join(f.Path, "\n"))
	}
	return f
}

// precautions are all that have a switch, each with its trap of section 5 of docs/DESIGN.md, 0: none, and the run that breaks without it.
var precautions = []struct {
	off  Switch
	trap int
	run  *Config
	text string
}{
	{Identity, 1, &reuse, "a look-up compares the start"},
	{SecondWriter, 2, &skips, "a second writer enters what the first one missed"},
	{DoomedAtBirth, 3, &births, "a birth reads the states"},
	{Walk, 3, &births, "an end walks all tasks"},
	{InsertFirst, 3, &births, "a birth reads the states after its insert"},
	{TornDown, 7, &settles, "a process counts as torn down once it is a zombie, not while it exits"},
	{SwapState, 8, &patience, "states change by compare-and-swap"},
	{CountChain, 9, &inside, "counts move on the whole chain"},
	{StateChain, 9, &inside, "states are read on the whole chain"},
	{Narrow, 10, &repairs, "reconcile enters only what was born after its parent was entered"},
	{BornInside, 0, &again, "reconcile enters only what was born after its session began"},
	{ProtectMember, 11, &protects, "a member is not protected"},
	{ExitCounted, 16, &silent, "an exit is shown when it is counted"},
	{Recount, 12, &unwaited, "each zombie is checked again before a session is ended for its zombies"},
	{CoreDump, 19, &patience, "a process that dumps core is killed all the same"},
	{CompareAfterSwap, 20, &keeps, "the start is compared after a swap of the session"},
	{CreatorsName, 21, &late, "a child has its creator's name until it execs"},
	{Counting, 22, &settles, "a death that is being counted leaves the count alone"},
	{Seize, 0, &creates, "one caller counts a death"},
	{DyingFirst, 0, &settles, "dying is raised before live falls"},
	{FollowCreator, 0, &keeps, "a birth reads the creator's session again"},
	{LiveAfterInsert, 0, &creates, "what enters a process looks afterwards whether it has exited"},
	{Nested, 0, &nests, "a record with nested records stays"},
	{HandDead, 0, &zombies, "the unreaped dead of a record are handed to the session around it"},
	{Dissolved, 0, &nests, "a dissolved session has a state of its own"},
	{Look, 0, &lossy, "the daemon compares its picture with the kernel's"},
	{CarryAgain, 0, &takes, "a take-over moves what the old side moved meanwhile"},
	{StopAgents, 0, &takes, "a take-over stops the old exec hook"},
	{WaitForHooks, 0, &takes, "a take-over waits for exec hooks that run"},
	{ReadAgain, 0, &takes, "a take-over reads the sessions again"},
	{LateAgents, 0, &takes, "a take-over looks for agents that no side saw"},
	{OpenOnce, 0, &room, "an exec and a take-over open one session"},
	{OlderEntry, 0, &younger, "an entry that is younger than the process that is looked for is not stale"},
	{GiveBack, 0, &keeps, "only the entry of a living process is given back after a swap"},
	{GiveBack, 0, &regained, "also if it was in no session"},
	{RootStands, 0, &creates, "a session whose root was entered, and forked, is not taken back"},
	{BirthFirst, 0, &inside, "no session is opened over a process whose birth is under way"},
	{RootOfRecord, 0, &room, "an exec asks the record of its session for the root, not its entry"},
	{HeldOnce, 0, &full, "a death does not change the count that the limit is compared with"},
	{CountApart, 0, &let, "a move does not count in sessions that are around both"},
	{FlagFirst, 0, &halts, "a halt sets its flag before it lists the sessions"},
	{MarkedDue, 0, &halts, "the flag of a halt ends the sessions that were marked"},
	{FlagAfterRecord, 0, &halts, "an exec reads the flag of a halt when the record of its session is there"},
	{OnlyAgents, 0, &asked, "a halt kills at their exec only agents"},
	{StoppedHalts, 0, &handed, "an exec hook that opens no sessions any more reads the flag of a halt"},
	{StopAtBirth, 0, &pauses, "a birth in a paused session is stopped"},
	{FlagAgain, 0, &retried, "the flag of a stop is set again after SIGSTOP"},
	{StopLooks, 0, &pauses, "what sends SIGSTOP reads the pause again"},
	{ResumeLooks, 0, &renewed, "what sends SIGCONT reads the pause again"},
	{FlagAhead, 0, &retried, "the flag of a stop is taken away ahead of SIGCONT"},
	{OnlyOurs, 0, &nudged, "a resume continues only what a pause has stopped"},
	{PausedDies, 0, &dies, "a paused session ends without a grace"},
	{ContinueSeen, 0, &nudged, "the hook on signals sees SIGCONT to a member of a paused session"},
	{ContinueSoon, 0, &nudged, "it sees one that comes before the member has stopped"},
	{NoLater, 0, &nudged, "it puts off no pass that is due"},
	{RootCounts, 0, &creates, "the death of a root makes a pass due"},
	{MidPass, 0, &freed, "also if a pass in between saw it"},
	{BeingCounted, 0, &unwaited, "a limit waits for the count of a process that was waited for"},
	{LastExec, 0, &heirs, "a take-over compares execs, not names"},
	{PlaceReaps, 0, &reuse, "a birth counts the dead process that had its PID as reaped"},
	{PlaceWaits, 0, &reuse, "it waits for the delete of what had its PID"},
	{SpareInside, 0, &spares, "a session's root is spared from sessions inside too"},
	{SpareEqual, 0, &spares, "the root of a session inside is not spared in the one around"},
	{MarkSession, 0, &keeps, "a death marks the session that it reads"},
	{UndoneDue, 0, &keeps, "a move that is undone makes a pass due"},
}

// outside says why a trap is not one of the machine's.
var outside = map[int]string{
	4:  "which programs the kernel's recursion guard skips; that one may be skipped is in the machine",
	5:  "in which context a signal works",
	6:  "the machine has no threads",
	13: "the machine has no clock",
	14: "the machine has one PID namespace",
	15: "the machine has no ring",
	17: "what a kernel lacks",
	18: "a refused fork proves nothing, and the machine holds without it",
}

// TestPrecautions: without any one of the precautions a promise breaks, and for a trap of the design
// within 25 steps. One without a counterexample would be useless.
func TestPrecautions(t *testing.T) {
	for _, p := range precautions {
		t.Run(p.text, func(t *testing.T) {
			m := *p.run
			m.Off, m.Single = p.off, true // for the shortest one
			switch p.off {                // another one hides it
			case ExitCounted:
				m.Off |= Look
			case Narrow:
				m.Off |= BornInside
			}
			if f := broken(t, &m, 1<<20); p.trap > 0 && len(f.Path) > 25 {
				t.Errorf("the counterexample has %d steps", len(f.Path))
			}
		})
	}
}

func broken(t *testing.T, m *Config, most int) Found {
	t.Helper()
	f := m.Search(most)
	if f.Broken == "" {
		t.Fatalf("no counterexample in %d states", f.States)
	}
	t.Logf("%s:\n%s", f.Broken, strings.Join(f.Path, "\n"))
	return f
}

// TestTraps: each trap of section 5 of docs/DESIGN.md has a precaution, or is outside the machine.
func TestTraps(t *testing.T) {
	_, traps, found := strings.Cut(string(require.ReadFile(t, "../../docs/DESIGN.md")), "\n## 5. Traps")
	if !found {
		t.Fatal("no section 5")
	}
	traps, _, _ = strings.Cut(traps, "\n## ")
	inside := map[int]bool{}
	for _, p := range precautions {
		inside[p.trap] = true
	}
	listed := regexp.MustCompile(`(?m)^(\d+)\. `).FindAllStringSubmatch(traps, -1)
	for _, m := range listed {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		if inside[n] == (outside[n] != "") {
			t.Errorf("trap %d is in one of precautions and outside", n)
		}
	}
	for n := range outside {
		if n > len(listed) {
			t.Errorf("there is no trap %d", n)
		}
	}
}
