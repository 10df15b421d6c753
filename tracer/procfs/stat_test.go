//go:build linux

package procfs

import (
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	const tail = " 41 5 -1 -1 4194560 0 0 0 0 0 0 0 0 20 0 %s 0 777 0"
	line := func(comm, state, threads string) string {
		return "42 (" + comm + ") " + state + " 7" + strings.ReplaceAll(tail, "%s", threads)
	}
	stat := func(comm string, state byte, threads int) Stat {
		return Stat{PID: 42, Parent: 7, SID: 5, TTY: -1, Start: 777, Comm: comm, State: state, Threads: threads, Loaded: true}
	}
	inExec := stat("sh", 'R', 1)
	inExec.Loaded = false
	released := stat("sh", 'X', 0)
	released.SID = -1
	for _, c := range []struct {
		in     string
		want   Stat
		ok     bool
		zombie bool
	}{
		{line("sh", "S", "1"), stat("sh", 'S', 1), true, false},
		{line("a) Z 1 (b", "R", "1"), stat("a) Z 1 (b", 'R', 1), true, false},
		{line("\x1b[2J\n", "Z", "0"), stat("\x1b[2J\n", 'Z', 0), true, true},
		{line("leader", "Z", "3"), stat("leader", 'Z', 3), true, false},
		{line("sh", "R", "1") + " 0 0 0 0 0", inExec, true, false},
		{line("sh", "R", "1") + " 0 0 1 0 0", stat("sh", 'R', 1), true, false},
		{strings.Replace(line("sh", "X", "0"), " 5 ", " -1 ", 1), released, true, true},
		{in: ""}, {in: "42 (sh"}, {in: "42 (sh) S 7"}, {in: line("sh", "S", "x")},
	} {
		got, ok := parseStat(c.in)
		if ok != c.ok || ok && (got != c.want || got.Zombie() != c.zombie) {
			t.Errorf("%q: %+v %v, want %+v %v", c.in, got, ok, c.want, c.ok)
		}
	}
}
