//go:build linux

package tracer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
)

// bursts are how many calls fail in a row: one, both tries of both writers of a birth, and
// all that a step makes.
var bursts = []int{1, 4, 16}

// Every helper that can fail does: in the build of bpf/faults.h, from the first call of
// each scene to the last. Whatever fails, no outsider is signalled, nobody survives a
// session that is over, no process is in a wrong session, and after a reconcile pass the
// counts are those of the processes. make test takes a random call of each place in the
// sources, LNGTEST_FAULTS=all takes all.
func TestFaults(t *testing.T) {
	everySide(t, testFaults)
	if tracertest.AtLeast(t, 6, 13) {
		t.Run("level 2", func(t *testing.T) { testFaults(t, tracer.Options{Level: 2}) })
	}
}

func testFaults(t *testing.T, o tracer.Options) {
	defer tracer.LoadFaults()()
	x := newTheatre(t)
	began := time.Now()
	points, runs, failed, steps := 0, 0, 0, 0
	seen := map[string]bool{}
	level := 0
	o.Dir = tracertest.Dir(t)
	var tr *tracer.Tracer
	run := func(r *testing.T, s scene, after, burst int) *troupe {
		if tr == nil {
			tr = faulty(t, x, o)
		}
		return play(&troupe{T: r, tr: tr, theatre: x, scene: s.name, after: after, burst: burst}, s)
	}
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			whole := run(t, s, 0, 0)
			level = tr.Features().Level
			points, steps = points+len(whole.places), steps+whole.steps
			fail := func(after, burst int) (fired bool) {
				ok := t.Run(fmt.Sprintf("%d from %d", burst, after), func(t *testing.T) {
					n := run(t, s, after, burst).failed
					fired = n > 0
					runs, failed = runs+1, failed+n
				})
				if !ok { // the next begins with a new kernel side
					tr.Close()
					require.NoError(t, tracer.Unload(o.Dir))
					tr = nil
				}
				return fired || !ok
			}
			some := chosen(whole.places, seen)
			if os.Getenv("LNGTEST_FAULTS") != "all" {
				for _, c := range some {
					fail(c.after, c.burst)
				}
				return
			}
			for _, burst := range bursts {
				for after := 0; fail(after, burst); after++ {
				}
			}
		})
	}
	t.Logf("figure: level %d: %d steps, %d calls that can fail, at %d places; %d runs, in which %d calls failed, %.1f s",
		level, steps, points, len(seen), runs, failed, time.Since(began).Seconds())
}

// faulty is a tracer whose calls of helpers can be made to fail.
func faulty(t *testing.T, x *theatre, o tracer.Options) *tracer.Tracer {
	t.Helper()
	tr := tracertest.New(t, o)
	go drain(tr)
	require.NoError(t, tr.SetAgents([]tracer.Agent{{Comm: x.comms["nests"], Nests: true}}))
	require.NoError(t, tr.FailCalls(0, 0)) // the slots were filled
	return tr
}

type choice struct{ after, burst int }

// chosen is a random call of each place that is not in seen yet.
func chosen(places []string, seen map[string]bool) (all []choice) {
	for i, place := range places {
		if seen[place] {
			continue
		}
		seen[place] = true
		var at []int
		for j := range places[i:] {
			if places[i+j] == place {
				at = append(at, i+j)
			}
		}
		all = append(all, choice{at[rand.IntN(len(at))], bursts[rand.IntN(len(bursts))]})
	}
	return all
}

func drain(tr *tracer.Tracer) {
	var ev tracer.Event
	for tr.Read(&ev) == nil {
	}
}

// play plays one scene in which burst calls fail, after as many that do not.
func play(p *troupe, s scene) *troupe {
	p.Helper()
	cmd, channel, err := p.theatre.keeper()
	require.NoError(p, err)
	p.keeper = &actor{name: "keeper", channel: channel, id: tracer.Identity{PID: uint32(cmd.Process.Pid)}}
	defer func() {
		for _, a := range append(p.actors, p.keeper) {
			a.leaves()
		}
		if err := waited(cmd); err != nil {
			p.Error(err)
		}
		if !p.Failed() {
			p.nothingStays()
		}
	}()
	p.before, err = p.tr.Counters()
	require.NoError(p, err)
	stranger := p.fork(p.keeper)
	require.NoError(p, p.tr.FailCalls(p.after, p.burst))
	s.play(p)
	p.fork(stranger)
	p.places, p.failed, err = p.tr.Calls()
	require.NoError(p, err)
	require.NoError(p, p.tr.FailCalls(0, 0))
	p.repaired()
	for _, s := range slices.Backward(p.sessions) {
		p.finish(s)
	}
	p.strangersLive()
	return p
}

// repaired checks that after a reconcile pass everything is as it should be.
func (p *troupe) repaired() {
	p.Helper()
	p.step("reconcile")
	_, _, err := p.tr.Reconcile()
	require.NoError(p, err)
	p.eventually(func() string {
		for _, wrong := range []func() string{p.membership, p.recount} {
			if what := wrong(); what != "" {
				return what
			}
		}
		return ""
	})
}

// membership compares the session of each living process with the one that it belongs to.
func (p *troupe) membership() string {
	for _, a := range p.actors {
		if a.gone() {
			continue
		}
		e, err := p.tr.Lookup(a.id.PID)
		if err != nil && !errors.Is(err, tracer.ErrNotFound) {
			return err.Error()
		}
		if want := a.in.home(); e.Session != want.number() && !p.onRecord(a) {
			return a.name + " is in " + p.called(e.Session) + ", want " + want.called()
		}
	}
	return ""
}

// recount compares the counts of each session with the entries.
func (p *troupe) recount() string {
	all, err := p.tr.Sessions()
	if err != nil {
		return err.Error()
	}
	for _, s := range all {
		if s.State == tracer.StateDissolved {
			continue
		}
		live, dying := int64(0), int64(0)
		if s, err = p.tr.Settle(s.ID); err != nil {
			return err.Error()
		}
		err := p.tr.Snapshot(s.ID, func(seen *tracer.Process) error {
			if !seen.Dead {
				live++
			} else if !seen.Zombie {
				dying++
			}
			return nil
		})
		if err != nil {
			return err.Error()
		}
		if s.Live != live || s.Dying != dying {
			return p.called(s.ID) + " " + differ(s, live, dying)
		}
	}
	return ""
}
