//go:build linux

package tracer_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/protocol"
	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// Sessions of a storm, as their events report them, are runs of the machine of internal/protocol. A session with one
// event removed, doubled or given to another process is refused, or a run, too. LNGTEST_SLICES of each kernel side.
func TestSlices(t *testing.T) { everySide(t, testSlices) }

func testSlices(t *testing.T, o tracer.Options) {
	tr := tracertest.New(t, o)
	level := tr.Features().Level
	if level == 3 {
		t.Skip("at level 3 any hook may make the pass that an exit made due")
	}
	const states = 100_000
	most := tracertest.FromEnv(t, "LNGTEST_SLICES", 6)
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 0))
	void, slices, events, largest, refused, legal := 0, 0, 0, 0, 0, 0
	for slices < most && void <= most {
		for _, l := range storm(t, tr) {
			ok, visited := l.Explain(states)
			if len(l.Steps) == 0 || visited > states { // an event was lost, or there are too many CPUs to decide it
				void++
				continue
			}
			if !ok {
				t.Errorf("in %d states no run: %+v", visited, *l)
			}
			slices, events, largest = slices+1, events+len(l.Steps), max(largest, visited)
			if ok, visited := mutant(l, rnd).Explain(states); ok {
				legal++
			} else if visited <= states {
				refused++
			}
		}
	}
	t.Logf("figure: level %d: %d slices with %d events, void %d, at most %d states; with one event changed %d refused, %d runs, too",
		level, slices, events, void, largest, refused, legal)
	if slices == 0 || refused <= legal {
		t.Error("this shows nothing")
	}
}

// storm runs sessions at once: one that is ended amid its forks, one after them, and one whose root exits amid them. Of a storm
// of which an event was lost, or a program was skipped, the slices have no steps.
func storm(t *testing.T, tr *tracer.Tracer) (all []*protocol.Slice) {
	t.Helper()
	const forks = "for i in 1 2 3; do ( (:) & (:) & wait ) & echo; done; "
	named := shellNamed(t, "lngtest-slice") + ` -c "(:); :"`
	var works []*workload
	var ids []tracer.SessionID
	before, err := tr.RecursionMisses()
	require.NoError(t, err)
	for i := range 6 {
		script := forks + named + "; wait; echo done; read stop"
		if i%3 == 2 {
			script = forks + named + "; exit"
		}
		w, root := reaped(t, script)
		id, err := tr.Create(tracer.SessionSpec{Root: tracer.Identity{PID: root}})
		require.NoError(t, err)
		works, ids = append(works, w), append(ids, id)
	}
	for _, w := range works {
		w.goOn()
	}
	for i, w := range works {
		w.line()
		if i%3 == 1 {
			w.until("done")
		}
		if i%3 < 2 {
			require.NoError(t, tr.End(ids[i], tracer.CauseEnd, 0))
		}
	}
	for i, w := range works {
		nobodyLives(t, tr, ids[i], 3)
		w.gone()
		w.wait()
		settled(t, tr, ids[i])
		until(t, "all are reaped", func() bool {
			s, err := tr.Session(ids[i])
			return err == nil && s.Unreaped == 0
		})
	}
	seen := flushed(t, tr)
	after, err := tr.RecursionMisses()
	require.NoError(t, err)
	lost := !maps.Equal(before, after) || slices.ContainsFunc(seen, func(ev tracer.Event) bool { return ev.Type == tracer.EventLost })
	for _, id := range ids {
		l := &protocol.Slice{Level: tr.Features().Level}
		if !lost {
			slice(l, id, seen)
		}
		all = append(all, l)
		require.NoError(t, tr.Release(id))
	}
	return all
}

// slice puts the visible steps of a session into l, with small numbers for processes, PIDs, names and CPUs.
func slice(l *protocol.Slice, id tracer.SessionID, seen []tracer.Event) {
	processes, pids := map[tracer.Identity]int{}, map[uint32]int{}
	names, cpus := map[tracer.Comm]int{}, map[uint16]int{}
	kinds := map[tracer.EventType]protocol.SeenKind{
		tracer.EventBirth: protocol.SeenBirth, tracer.EventExec: protocol.SeenExec, tracer.EventExit: protocol.SeenExit,
		tracer.EventReaped: protocol.SeenReaped, tracer.EventSession: protocol.SeenTurn,
	}
	for _, ev := range seen {
		if ev.Session == id && ev.Type == tracer.EventBirth && len(processes) == 0 { // the root is entered
			l.Name = number(names, ev.Comm)
			number(processes, ev.Process)
			number(pids, ev.Process.PID)
			continue
		}
		if kind, visible := kinds[ev.Type]; visible && ev.Session == id && ev.State != tracer.StateActive {
			step := protocol.Seen{CPU: number(cpus, ev.CPU) - 1, Kind: kind, State: int(ev.State)}
			if ev.Type != tracer.EventSession {
				step.Process, step.PID = number(processes, ev.Process), number(pids, ev.Process.PID)
			}
			if kind == protocol.SeenBirth {
				step.Creator = number(processes, ev.Creator)
			}
			if kind == protocol.SeenBirth || kind == protocol.SeenExec {
				step.Name = number(names, ev.Comm)
			}
			l.Steps = append(l.Steps, step)
		}
	}
	l.Processes = len(processes)
}

func number[K comparable](in map[K]int, key K) int {
	if in[key] == 0 {
		in[key] = len(in) + 1
	}
	return in[key]
}

func mutant(l *protocol.Slice, rnd *rand.Rand) *protocol.Slice {
	x := *l
	i, how := rnd.IntN(len(x.Steps)), rnd.IntN(3)
	for how == 2 && x.Steps[i].Process == 0 { // a turn is of no process
		i = rnd.IntN(len(x.Steps))
	}
	step := x.Steps[i]
	switch x.Steps = slices.Clone(x.Steps); how {
	case 0:
		x.Steps = slices.Delete(x.Steps, i, i+1)
	case 1:
		x.Steps = slices.Insert(x.Steps, i, step)
	default:
		x.Steps[i].Process = 1 + (step.Process+rnd.IntN(x.Processes-1))%x.Processes
	}
	return &x
}
