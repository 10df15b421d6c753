//go:build linux

package tracer_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/tracertest"
	"pgregory.net/rapid"
)

// Random sequences of actions of processes, users and daemons, on real processes: after
// each step the kernel side agrees with the model. Each kernel side is tested for 12 s,
// or for LNGTEST_STATEFUL seconds. A failure prints the seed for -rapid.seed.
func TestStateful(t *testing.T) { everySide(t, testStateful) }

func testStateful(t *testing.T, o tracer.Options) {
	t.Setenv("LNGTEST_SECONDS", strconv.Itoa(int((10 * patience).Seconds()))) // a sequence may be long
	o.Dir = tracertest.Dir(t)
	s := &stage{T: t, options: o, theatre: newTheatre(t)}
	t.Cleanup(s.strike)
	limit := time.Duration(tracertest.FromEnv(t, "LNGTEST_STATEFUL", 12)) * time.Second
	end := time.Now().Add(limit)
	for time.Now().Before(end) {
		rapid.Check(t, func(r *rapid.T) {
			if s.failing || time.Now().Before(end) {
				s.play(r)
			}
		})
	}
	t.Logf("figure: level %d: %d sequences, %d steps, %d take-overs, %d agents started during one",
		s.tr.Features().Level, s.sequences, s.steps, s.takenOver, s.agents)
}

type stage struct {
	*testing.T
	options tracer.Options
	theatre *theatre
	tr      *tracer.Tracer
	failing bool // a sequence has failed: rapid searches for a shorter one

	sequences, steps, takenOver, agents int
}

// play runs one sequence. After a failure the next one begins with a new kernel side.
func (s *stage) play(t *rapid.T) {
	if s.tr == nil {
		require.NoError(t, s.open())
	}
	w := newWorld(t, s)
	over := false
	defer func() {
		if err := w.leave(); err != nil {
			s.Error(err)
		}
		if !over {
			s.failing = true
			s.strike()
		}
	}()
	for range 3 {
		w.born(w.keeper, "")
	}
	t.Repeat(map[string]func(*rapid.T){"step": w.step, "": func(*rapid.T) { w.agree() }})
	w.finish()
	over = true
	s.sequences++
}

func (s *stage) open() error {
	var err error
	if s.tr, err = tracer.Open(s.options); err != nil {
		return err
	}
	var all []tracer.Agent
	for name, a := range agents {
		spec := a.terms.spec(&process{})
		all = append(all, tracer.Agent{Comm: s.theatre.comms[name], Nests: a.nests, Grace: spec.Grace, KeepOnRootExit: spec.KeepOnRootExit})
	}
	all = append(all, tracer.Agent{Comm: s.theatre.comms["crowd"], Nests: true})
	return s.tr.SetAgents(all)
}

// next makes another kernel side take over.
func (s *stage) next() error {
	s.tr.Close()
	s.options = other(s.options)
	s.takenOver++
	return s.open()
}

// strike unloads the kernel side.
func (s *stage) strike() {
	if s.tr != nil {
		s.tr.Close()
		s.tr = nil
	}
	require.NoError(s, tracer.Unload(s.options.Dir))
}
