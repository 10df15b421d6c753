package main

import (
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// The beginning of an id is enough to read about a session, and for an end with a plan.
func TestPrefix(t *testing.T) {
	for line, want := range map[string]string{
		"tree k3x -o name":               "4121@4121000\n",
		"tree k3x9q2 -o name":            "4121@4121000\n",
		"history e7d -o name":            "e7d7c7\n",
		"end --dry-run k3x":              "k3x9q2 build: 4 processes would get",
		"end --yes --if-plan x k3x":      "k3x9q2: ended, clean",
		"events --session k3x -o name":   "4140@4140000\n",
		"end --yes --now k3x9q2 -o name": "k3x9q2\n",
	} {
		if code, out, stderr := newWorld(t, newFake()).run(strings.Fields(line)...); code != 0 || !strings.HasPrefix(out, want) {
			t.Errorf("%s: exit %d, %q, %s", line, code, out, stderr)
		}
	}
}

// If several ids match, they are named; without a plan nothing is ended by the beginning of an id.
func TestPrefixOfSeveral(t *testing.T) {
	f := newFake()
	f.Has.Sessions = append(f.Has.Sessions, api.Session{ID: "k3x111", State: "active"}, api.Session{ID: "412345", State: "active"})
	code, out, stderr := newWorld(t, f).run("tree", "k3x")
	want := "lineage: session k3x: several ids begin with that; write more of it: k3x9q2 (active, uid 1000), k3x111 (active, uid 0)\n"
	if code != api.ExitUsage || out != "" || stderr != want {
		t.Errorf("exit %d, %q, %q", code, out, stderr)
	}
	if code, _, _ := newWorld(t, f).run("end", "--yes", "k3x9"); code != api.ExitNotFound || len(f.Got.Ended) != 0 {
		t.Errorf("exit %d, ended %v", code, f.Got.Ended)
	}
	// A number is a PID, not the beginning of an id.
	if code, out, _ := newWorld(t, f).run("tree", "4123", "-o", "name"); code != 0 || !strings.HasPrefix(out, "4123@") {
		t.Errorf("exit %d, %q", code, out)
	}
}
