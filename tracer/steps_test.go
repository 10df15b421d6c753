//go:build linux

package tracer_test

import (
	"errors"
	"slices"
	"time"

	"github.com/lineage-ebpf/lineage/tracer"
	"pgregory.net/rapid"
)

const (
	present   = 20 // processes that one sequence may have, zombies included
	takeOvers = 1  // per sequence: one takes a second or two
)

func (w *world) step(t *rapid.T) {
	w.steps++
	live := w.some(func(p *process) bool { return !p.dead })
	zombies := w.some(func(p *process) bool { return p.dead && !p.reaped })
	members := w.some(func(p *process) bool { return !p.dead && p.in != nil && p.in.root != p })
	parents := append(w.some(func(p *process) bool { return !p.dead && p.room() }), w.keeper)
	if len(live)+len(zombies) >= present || len(w.processes) == mostProcesses {
		parents = nil
	}
	founders, execs, namers := live, live, parents
	if w.opened == mostSessions {
		founders, execs, namers, members = nil, nil, nil, nil
	}
	starters := w.some(func(p *process) bool { return !p.dead && p.in.depth() < tracer.MaxDepth && !p.limited() })
	standing := w.those(func(s *session) bool { return s.state != empty && s.state != dissolved })
	dissolvable := w.those(func(s *session) bool { return s.state == active })
	late := w.those(func(s *session) bool { return s.state != active })
	over := w.those((*session).releasable)
	early := w.those(func(s *session) bool { return !s.releasable() })

	// The first and the last are drawn more often than the others.
	var possible []string
	do := map[string]func(){}
	can := func(weight int, name string, among int, step func()) {
		if among > 0 {
			possible = append(possible, slices.Repeat([]string{name}, weight)...)
			do[name] = step
		}
	}
	can(20, "fork", len(parents), func() { w.born(one(t, parents), "") })
	can(16, "create", len(founders), func() { w.found(one(t, founders), w.owner(t, live), anyTerms(t), rapid.Bool().Draw(t, "descendants")) })
	can(16, "exec", len(execs), func() { w.become(one(t, execs), anyName(t)) })
	can(12, "exit", len(live), func() { w.exit(one(t, live)) })
	can(12, "dissolve", len(dissolvable), func() { w.dissolve(one(t, dissolvable)) })
	can(16, "release", len(over), func() { w.release(one(t, over)) })
	can(16, "reap", len(zombies), func() { w.reap(one(t, zombies)) })
	can(6, "end", len(standing), func() { w.end(one(t, standing), 0) })
	can(6, "end with grace", len(standing), func() { w.end(one(t, standing), hour) })
	can(2, "end soon", len(standing), func() { w.end(one(t, standing), 10*time.Millisecond) })
	can(6, "keep", len(members), func() { w.hold(one(t, members)) })
	can(6, "defy", len(live), func() { w.defy(one(t, live)) })
	can(2, "setsid", len(live), func() { w.tell(one(t, live), "setsid") })
	can(2, "dissolve late", len(late), func() { w.dissolve(one(t, late)) })
	can(8, "release early", len(early), func() { w.release(one(t, early)) })
	can(1, "take over", takeOvers-w.taken, func() { w.takeOver(starter(t, starters)) })
	can(10, "vfork", len(namers), func() { w.born(one(t, namers), anyName(t)) })
	do[rapid.SampledFrom(possible).Draw(t, "step")]()
}

func (w *world) some(fit func(*process) bool) []*process {
	return slices.DeleteFunc(slices.Clone(w.processes), func(p *process) bool { return !fit(p) })
}

func (w *world) those(fit func(*session) bool) []*session {
	return slices.DeleteFunc(slices.Clone(w.sessions), func(s *session) bool { return !fit(s) })
}

func one[T any](t *rapid.T, among []T) T {
	return among[rapid.IntRange(0, len(among)-1).Draw(t, "which")]
}

func anyName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"nests", "plain", "other"}).Draw(t, "name")
}

func anyTerms(t *rapid.T) terms {
	return terms{
		patient: rapid.Bool().Draw(t, "patient"), outlast: rapid.Bool().Draw(t, "outlast"),
		limit: rapid.SampledFrom([]int{0, 0, 6}).Draw(t, "limit"),
	}
}

// starter is a process that starts agents during a take-over, or nil.
func starter(t *rapid.T, starters []*process) *process {
	if len(starters) == 0 || rapid.IntRange(0, 3).Draw(t, "started") == 3 {
		return nil
	}
	return one(t, starters)
}

// owner is a process whose death ends the session of another one, or nil.
func (w *world) owner(t *rapid.T, live []*process) *process {
	if rapid.IntRange(0, 3).Draw(t, "owned") < 3 {
		return nil
	}
	return one(t, live)
}

func (w *world) exit(p *process) {
	w.t.Logf("%s exits", p.name)
	if _, err := ask(p.channel, "exit"); !errors.Is(err, errGone) {
		w.must(err, "have %s exit", p.name)
	}
	w.act("exit", p.number)
}

func (w *world) reap(p *process) {
	w.t.Logf("%s reaps %s", p.parent.name, p.name)
	w.tell(p.parent, "reap %d", p.id.PID)
	w.act("reap", p.number)
}

func (w *world) defy(p *process) {
	w.t.Logf("%s defies", p.name)
	w.tell(p, "defy")
	w.act("defy", p.number)
}

// finish ends and releases all sessions: no record stays.
func (w *world) finish() {
	for _, s := range w.those(func(s *session) bool { return s.state != dissolved }) {
		if s.state != empty {
			w.end(s, 0)
		}
	}
	w.agree()
	for len(w.sessions) > 0 {
		w.release(w.those((*session).releasable)[0])
	}
	w.agree()
	for _, p := range w.some(func(p *process) bool { return p.dead && !p.reaped }) {
		w.reap(p)
	}
	w.agree()
	w.counters()
}
