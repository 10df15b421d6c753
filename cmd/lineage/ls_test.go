package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Without a terminal, columns do not depend on their content.
func TestLsColumns(t *testing.T) {
	header := func(f *apitest.Client) string {
		_, out, _ := newWorld(t, f).run("ls")
		line, _, _ := strings.Cut(out, "\n")
		return strings.Join(strings.Fields(line), " ")
	}
	f := newFake()
	without := header(f)
	f.Has.Sessions[0].Ports = []int{8123, 9000}
	if with := header(f); with != without || !strings.Contains(with, "PORTS") {
		t.Errorf("%q with ports, %q without", with, without)
	}
	_, out, _ := newWorld(t, f).run("ls")
	require.Contains(t, out, " 8123,9000 ")
	f.Has.Sessions = nil
	require.Equal(t, header(f), without)
}

// A terminal of 80 columns shows everything that warns: a session that only its leftovers keep
// alive, orphans and zombies. A name is worth more than the root.
func TestLsWarns(t *testing.T) {
	f := newFake()
	f.Has.Sessions = f.Has.Sessions[:2]
	for i := range f.Has.Sessions {
		s := &f.Has.Sessions[i]
		s.Name, s.State, s.Ports, s.Zombies, s.EndReason = fmt.Sprintf("nightly-backup-%d", i), "active", []int{8123, 9000}, 20+i, ""
	}
	header := func() string {
		line, _, _ := strings.Cut(onTerminal(t, f, 80, "ls"), "\n")
		return strings.Join(strings.Fields(line), " ")
	}
	require.Equal(t, header(), "ID NAME LIVE ORPHANS ZOMBIES CPUS RSS PORTS AGE")
	f.Has.Sessions[1].Name = "" // only its root says what it is
	require.Equal(t, header(), "ID NAME LIVE ORPHANS ZOMBIES PORTS ROOT")
	f.Has.Sessions[1].Name, f.Has.Sessions[1].Leftovers = "left", 3
	require.Equal(t, header(), "ID NAME STATE LIVE ORPHANS ZOMBIES RSS PORTS")
	for columns, want := range map[string]string{"state": "STATE\nactive\nleftover\n", "name": "NAME\nnightly-backup-0\nleft\n"} {
		if _, out, stderr := newWorld(t, f).run("ls", "--columns", columns); out != want {
			t.Errorf("%s: %q, %s", columns, out, stderr)
		}
	}
}

// An empty list is explained on a terminal, and nowhere else.
func TestEmpty(t *testing.T) {
	nothing := func() *apitest.Client { return &apitest.Client{} }
	for line, want := range map[string]string{
		"ls":                 `lineage: no session; start one with "lineage run -- CMD"`,
		"ls --state ended":   "lineage: no session;",
		"tree":               "lineage: no live session;",
		"history":            "lineage: no ended session is recorded",
		"history --since 1h": "lineage: no ended session in this period",
		"ls --left":          "lineage: no orphan, leftover or zombie",
		"ls --left --equal":  "lineage: no equal processes",
	} {
		text := onTerminal(t, nothing(), 80, strings.Fields(line)...)
		if !strings.Contains(text, want) || !strings.Contains(text, "sessions of other users are hidden; run with sudo") {
			t.Errorf("%s: %q", line, text)
		}
		reader := nothing() // of the group that reads all sessions
		reader.Has.Status = &api.Status{Counters: map[string]uint64{"lost": 0}}
		if text := onTerminal(t, reader, 80, strings.Fields(line)...); !strings.Contains(text, want) || strings.Contains(text, "hidden") {
			t.Errorf("%s: %q", line, text)
		}
		if strings.Contains(text, "NAME") {
			t.Errorf("%s: headers without rows: %q", line, text)
		}
		if text := onTerminal(t, nothing(), 80, strings.Fields(line+" -o json")...); strings.Contains(text, "lineage: ") {
			t.Errorf("%s -o json: %q", line, text)
		}
		if code, _, stderr := newWorld(t, nothing()).run(strings.Fields(line)...); code != 0 || stderr != "" {
			t.Errorf("%s off a terminal: exit %d, %q", line, code, stderr)
		}
	}
}

// TestLsEqual: equal processes are one row, with what an end of one takes; no list of names invites to end all of them.
func TestLsEqual(t *testing.T) {
	f := newFake()
	a, b := by(live(4130, "node", "mcp.js", "--port=3001"), 4121, 4121), by(live(4131, "node", "mcp.js", "--port=3002"), 4121, 4121)
	a.Busy, b.Busy = at(-60), at(-7200)
	tree := f.Has.Trees["k3x9q2"]
	tree.Nodes = append(tree.Nodes, api.Node{Process: a}, api.Node{Process: b})
	golden(t, "ls equal", newWorld(t, f).record("ls", "--left", "--equal", "build")+
		newWorld(t, f).record("ls", "--left", "--equal", "-o", "jsonl")+newWorld(t, f).record("ls", "--left", "--equal", "-o", "name"))
}
