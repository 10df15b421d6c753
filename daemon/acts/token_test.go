//go:build linux

package acts

import (
	"fmt"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

// TestPlansOfOthers: who makes many plans makes no plan of others expire, even of the same
// processes.
func TestPlansOfOthers(t *testing.T) {
	var p plans
	const most = maxPlans / planPrice
	root, alice, agent := owner{}, owner{uid: 1000}, owner{member: 7}
	add := func(by owner, token string) { p.add(&plan{token: token, by: by}) }
	found := func(token string) bool { return p.find(token, Subject{}, 0) != nil }
	add(root, "of root")
	add(alice, "of alice")
	add(agent, "of root")
	for n := range most + 1 {
		add(agent, fmt.Sprint(n))
	}
	if !found("of root") || !found("of alice") || len(p.all) != most {
		t.Errorf("of root: %v, of alice: %v, of %d", found("of root"), found("of alice"), len(p.all))
	}
	for uid := range uint32(most) {
		add(owner{uid: 2000 + uid}, fmt.Sprint("one of ", uid))
	}
	if !found("of root") || !found(fmt.Sprint("one of ", most-1)) {
		t.Error("many users make root's expire, or the last one is not kept")
	}
	for n := range most + 1 {
		add(root, fmt.Sprint("root ", n))
	}
	if most < api.MaxMatched || len(p.all) != most || found("root 0") || !found(fmt.Sprint("root ", most)) {
		t.Errorf("%d plans of root", len(p.all))
	}
	large := &plan{by: alice, members: map[tracer.Identity]tracer.EntryFlags{}}
	for pid := range uint32(maxPlans / 2) {
		large.members[tracer.Identity{PID: pid}] = 0
	}
	p.add(large)
	if _, price := p.spare(); price > maxPlans || len(p.all) < most/3 {
		t.Errorf("%d plans of price %d", len(p.all), price)
	}
}

// TestFind: a token is good for what its plan is about, for some time.
func TestFind(t *testing.T) {
	var p plans
	of := Subject{Session: 7, Root: tracer.Identity{PID: 10, Start: 1}}
	p.add(&plan{token: "a", of: of, made: time.Hour})
	for name, c := range map[string]struct {
		token string
		of    Subject
		after time.Duration
		found bool
	}{
		"it":                   {"a", of, 0, true},
		"another token":        {"b", of, 0, false},
		"all of the session":   {"a", Subject{Session: 7}, 0, false},
		"another session":      {"a", Subject{Session: 8, Root: of.Root}, 0, false},
		"a process of its PID": {"a", Subject{Session: 7, Root: tracer.Identity{PID: 10, Start: 2}}, 0, false},
		"at the last moment":   {"a", of, Memory - 1, true},
		"too late":             {"a", of, Memory, false},
	} {
		if found := p.find(c.token, c.of, time.Hour+c.after) != nil; found != c.found {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// TestBroken: a plan holds while nothing would be signalled that it does not name as such.
func TestBroken(t *testing.T) {
	with := func(p tracer.Process, flags tracer.EntryFlags) tracer.Process {
		p.Flags = flags
		return p
	}
	a, b, born := process(10, 9), process(11, 10), process(12, 10)
	sh, other := command{exe: "/bin/sh"}.sum(), command{exe: "/bin/cat"}.sum()
	n := &plan{members: map[tracer.Identity]tracer.EntryFlags{a.Identity: 0, b.Identity: sparing}, commands: map[[16]byte]bool{sh: true}}
	for name, c := range map[string]struct {
		now  []tracer.Process
		runs [16]byte // by the new one
		want string
	}{
		"as planned":              {[]tracer.Process{a, with(b, sparing)}, other, ""},
		"one has died":            {[]tracer.Process{a}, other, ""},
		"another flag":            {[]tracer.Process{with(a, tracer.FlagRoot)}, other, ""},
		"protected then":          {[]tracer.Process{a, b}, other, "pid 11 would be treated differently now"},
		"protected now":           {[]tracer.Process{with(a, sparing)}, other, "pid 10 would be treated differently now"},
		"new":                     {[]tracer.Process{a, born}, other, "pid 12 is not in the plan"},
		"new, with a command":     {[]tracer.Process{a, born}, sh, ""},
		"new, with it, protected": {[]tracer.Process{a, with(born, sparing)}, sh, "pid 12 is not in the plan"},
		"reused PID":              {[]tracer.Process{{Identity: tracer.Identity{PID: 10, Start: 99}}}, other, "pid 10 is not in the plan"},
	} {
		if got := n.broken(c.now, func(tracer.Identity) [16]byte { return c.runs }); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
