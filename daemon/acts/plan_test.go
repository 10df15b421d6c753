//go:build linux

package acts

import (
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

func process(pid, creator uint32) tracer.Process {
	id := func(pid uint32) tracer.Identity { return tracer.Identity{PID: pid, Start: uint64(pid)} }
	return tracer.Process{Identity: id(pid), Creator: id(creator)}
}

// TestCommands: a process that the graph does not have runs what its creator runs, unless that is
// not among the processes either.
func TestCommands(t *testing.T) {
	g := lineage.New(lineage.Options{})
	now := []tracer.Process{process(10, 9), process(11, 10), process(12, 11), process(13, 8)}
	g.Apply(&lineage.Event{Type: lineage.Birth, Time: 10, ID: now[0].Identity, Session: 1})
	g.Apply(&lineage.Event{Type: lineage.Exec, Time: 11, ID: now[0].Identity, Session: 1, Exe: []byte("/bin/sh"), Argv: []byte("sh\x00-c\x00")})
	run := commandsOf(g, now)
	shell := command{"/bin/sh", []string{"sh", "-c"}}
	for i, want := range []command{shell, shell, shell, {}} {
		if got := run[now[i].Identity]; got.sum() != want.sum() {
			t.Errorf("pid %d: %q, want %q", now[i].PID, got, want)
		}
	}
	for _, other := range []command{{}, {exe: "/bin/sh"}, {"/bin/sh", []string{"sh"}}, {"/bin/sh", []string{"sh -c"}}, {"/bin/s", shell.argv}} {
		if other.sum() == shell.sum() {
			t.Errorf("%q has the sum of %q", other, shell)
		}
	}
}

// TestManyUnknownCommands: the registry does nothing else meanwhile.
func TestManyUnknownCommands(t *testing.T) {
	now := []tracer.Process{process(10, 9)}
	for pid := uint32(11); pid < 40000; pid++ {
		now = append(now, process(pid, 10))
	}
	began := time.Now()
	if run := commandsOf(lineage.New(lineage.Options{}), now); len(run) > 0 {
		t.Errorf("%d commands", len(run))
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%d processes took %v", len(now), took)
	}
}
