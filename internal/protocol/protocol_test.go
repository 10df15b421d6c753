package protocol

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// members is a run that begins with a session.
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
	unwaited = members(1, 3, 3, 1, nil).with(limit(2))
	full     = members(1, 3, 3, 1, nil).with(limit(3))
	let      = members(2, 3, 3, 2, bounds{create: 1, dissolve: 1, exit: 0, fork: 1}).with(limit(3))
	once     = members(1, 3, 2, 3, bounds{outsider: 1, fork: 1, exit: 1, exec: 1, takeOver: 1}).with(agents)
	restart  = members(1, 3, 2, 3, bounds{outsider: 1, fork: 1, exit: 1, exec: 2, takeOver: 1}).with(agents)
	halts    = members(1, 2, 2, 2, bounds{outsider: 1, fork: 1, exit: 0, exec: 1, halt: 1}).with(agents)
	nested   = members(1, 2, 2, 2, bounds{fork: 1, exit: 0, exec: 1, execOther: 1, halt: 1}).with(agents)
	asked    = members(0, 2, 2, 2, bounds{outsider: 1, fork: 0, exit: 0, create: 1, protect: 1, exec: 1, execOther: 1, halt: 1}).with(agents)
	handed   = members(0, 1, 1, 1, bounds{outsider: 1, fork: 0, exit: 0, exec: 1, halt: 1, takeOver: 1}).with(agents)
	kept     = members(2, 3, 2, 3, bounds{outsider: 1, exec: 1, keep: 1, halt: 1, exit: 0}).with(agents)
	storm    = members(1, 3, 3, 3, bounds{outsider: 1, exit: 1, exec: 2, halt: 1}).with(agents)
	halved   = members(1, 3, 3, 3, bounds{outsider: 1, fork: 1, exit: 0, exec: 1, halt: 1, takeOver: 1}).with(agents)
	pauses   = members(1, 2, 2, 1, bounds{fork: 1, exit: 0, pause: 1, resume: 1})
	renewed  = members(1, 2, 2, 1, bounds{fork: 1, exit: 0, pause: 2, resume: 1})
	nudged   = members(2, 2, 2, 1, bounds{fork: 0, exit: 0, pause: 1, resume: 1, suspend: 1, wake: 1})
	retried  = members(1, 1, 1, 1, bounds{fork: 0, exit: 0, pause: 2, resume: 2, wake: 1})
	dies     = members(1, 2, 2, 1, bounds{fork: 1, exit: 0, endPatient: 1, pause: 1, resume: 1})
	freed    = members(2, 2, 2, 1, bounds{fork: 0, exit: 1, dissolve: 1, pause: 1, resume: 1})
	inner    = members(2, 2, 2, 2, bounds{fork: 0, exit: 0, create: 1, endPatient: 1, pause: 1, resume: 1})
	stills   = members(2, 3, 3, 1, bounds{fork: 1, exit: 0, pause: 1, resume: 1, exec: 1}).with(level2)
	passes   = members(2, 3, 3, 1, bounds{fork: 1, exit: 1, pause: 2, resume: 1, end: 1, wake: 1}).with(second)
	whole    = members(1, 3, 2, 3, bounds{outsider: 1, fork: 1, exit: 2, exec: 2, end: 1, takeOver: 1}).with(agents)
)

// TestHolds: no interleaving of these runs breaks a promise.
func TestHolds(t *testing.T) {
	for name, m := range map[string]Config{
		"reuse": reuse, "again": again, "skips": skips, "creates": creates, "protects": protects, "silent": silent, "lossy": lossy, "takes": takes, "late": late, "room": room, "heirs": heirs, "twice": twice,
		"halts": halts, "stalled": halts.with(func(m *Config) { m.Stall = true }), "nested": nested, "asked": asked, "handed": handed,
		"pauses": pauses, "renewed": renewed, "nudged": nudged, "retried": retried, "dies": dies, "freed": freed, "stills": stills,
		"unwaited": unwaited, "full": full, "let": let,
	} {
		t.Run(name, func(t *testing.T) {
			if f := holds(t, m, 1<<20); f.Cut {
				t.Errorf("there are more than %d states", f.States)
			}
		})
	}
}

// TestCounts: a search that takes at once what only counts comes to each state in which no CPU is at a step.
func TestCounts(t *testing.T) {
	for name, m := range map[string]Config{"reuse": reuse, "creates": creates, "takes": takes, "silent": silent, "asked": asked} {
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
		"keeps": keeps, "deaths": deaths, "kept": kept, "storm": storm, "halved": halved, "inner": inner, "passes": passes, "once": once, "restart": restart, "whole": whole,
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
	f := m.Search(most)
	t.Logf("figure: %d states, %d moves, depth %d, to the end: %v", f.States, f.Moves, f.Depth, !f.Cut)
	if f.Broken != "" {
		t.Errorf("%s, after %d steps:\n%s", f.Broken, len(f.Path), strings.Join(f.Path, "\n"))
	}
	return f
}

// counterexamples has, for each precaution, the run that breaks without it.
var counterexamples = map[Switch]Config{
	Identity: reuse, SecondWriter: skips, DoomedAtBirth: births, Walk: births, InsertFirst: births, TornDown: settles, SwapState: patience,
	CountChain: inside, StateChain: inside, Narrow: repairs, BornInside: again, ProtectMember: protects, ExitCounted: silent, CoreDump: patience,
	CompareAfterSwap: keeps, CreatorsName: late, Counting: settles, Seize: creates, DyingFirst: settles, FollowCreator: keeps,
	LiveAfterInsert: creates, Nested: nests, HandDead: zombies, Dissolved: nests, Look: lossy, CarryAgain: takes, StopAgents: takes,
	WaitForHooks: takes, ReadAgain: takes, LateAgents: takes, OpenOnce: room,
	OlderEntry: keeps, GiveBack: keeps, RootStands: creates, BirthFirst: inside, RootOfRecord: room, LastExec: heirs, RootAlone: twice,
	Recount: unwaited, HeldOnce: full, CountApart: let, FlagFirst: halts, FlagAfterRecord: halts, OnlyAgents: asked, StoppedHalts: handed,
	StopAtBirth: pauses, StopLooks: pauses, FlagAgain: retried, ResumeLooks: renewed, FlagAhead: retried, OnlyOurs: nudged, PausedDies: dies, ContinueSeen: nudged,
}

// TestPrecautions: without any one of the precautions a promise breaks, and for a trap of the design
// within 25 steps. One without a counterexample would be useless.
func TestPrecautions(t *testing.T) {
	for _, p := range Precautions {
		t.Run(p.Text, func(t *testing.T) {
			m := counterexamples[p.Off]
			m.Off, m.Single = p.Off, true // for the shortest one
			switch p.Off {                // another one hides it
			case ExitCounted:
				m.Off |= Look
			case Narrow:
				m.Off |= BornInside
			}
			if f := broken(t, &m, 1<<20); p.Trap > 0 && len(f.Path) > 25 {
				t.Errorf("the counterexample has %d steps", len(f.Path))
			}
		})
	}
}

// broken searches for a counterexample, and tells it.
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
	for _, p := range Precautions {
		inside[p.Trap] = true
	}
	listed := regexp.MustCompile(`(?m)^(\d+)\. `).FindAllStringSubmatch(traps, -1)
	for _, m := range listed {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		if inside[n] == (Outside[n] != "") {
			t.Errorf("trap %d is in one of Precautions and Outside", n)
		}
	}
	for n := range Outside {
		if n > len(listed) {
			t.Errorf("there is no trap %d", n)
		}
	}
}
