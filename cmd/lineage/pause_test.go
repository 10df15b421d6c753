package main

import (
	"slices"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

func TestPause(t *testing.T) {
	f := newFake()
	f.Has.Warnings = nil
	id := f.Has.Sessions[0].ID
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
	}{
		{[]string{"pause", id, "-o", "name"}, 0, id + "\n"},
		{[]string{"resume", id, "-o", "name"}, 0, id + "\n"},
		{[]string{"pause"}, api.ExitUsage, ""},
		{[]string{"pause", id, id}, api.ExitUsage, ""},
		{[]string{"resume", "nobody"}, api.ExitNotFound, ""},
	} {
		if code, stdout, stderr := newWorld(t, f).run(c.args...); code != c.code || stdout != c.stdout || (stderr == "") != (code == 0) {
			t.Errorf("%v: exit %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
	if !slices.Equal(f.Got.Paused, []string{"pause " + id, "resume " + id}) {
		t.Errorf("asked for %v", f.Got.Paused)
	}
	f.Has.Sessions[0].State, f.Has.Sessions[0].Paused = api.StateActive, new(time.Now())
	if code, stdout, stderr := newWorld(t, f).run("ls", "--state", "paused", "-o", "name"); code != 0 || stdout != id+"\n" {
		t.Errorf("exit %d, %q, %q", code, stdout, stderr)
	}
}
