//go:build linux

package stage

import (
	"os"
	"slices"
	"strings"
)

// An Escape is a program of testdata/programs, and how many of its processes report
// that they are in place.
type Escape struct {
	Program string
	Members int
}

// Escapes are the programs to try: six, or all with LNGTEST_PROGRAMS=all.
func Escapes() []Escape {
	if os.Getenv("LNGTEST_PROGRAMS") == "all" {
		return slices.Concat(six, others)
	}
	return six
}

// Argv is the program's path and its arguments.
func (e Escape) Argv() []string {
	words := strings.Fields(e.Program)
	return append([]string{Program(words[0])}, words[1:]...)
}

// six are always tried: a daemon, an empty environment, a subreaper, a fork and exit
// chain, a leader that has exited, a process that ignores signals.
var six = []Escape{
	{"daemonise stay", 1}, {"daemonise clear stay", 1}, {"subreaper", 1}, {"hop 8 20 200", 0}, {"under zombieleader", 1}, {"under ignoreterm", 1},
}

// others are tried only with LNGTEST_PROGRAMS=all.
var others = []Escape{
	{"detach", 1}, {"detach orphan", 1}, {"detach setpgid", 1}, {"detach setsid", 1}, {"detach noenv", 1}, {"detach setsid scrub", 1},
	{"detach setsid nopdeath", 1}, {"detach setsid rename", 1}, {"under slowterm 1", 1}, {"hop 16 20", 0}, {"hop 8 20 5000", 0}, {"bomb 500", 0},
	{"bombactive 400 60", 0}, {"respawnpair", 1}, {"respawn", 1}, {"cloneparent 3", 3}, {"vforkexec window", 1}, {"spawn", 1}, {"under threadexec 8", 1},
	{"stopped", 1}, {"ptraced", 1}, {"pidns", 0}, {"otheruser", 2}, {"nofile memfd", 1}, {"nofile deleted", 1}, {"bigmem 600", 1}, {"under zombies 500", 0},
}
