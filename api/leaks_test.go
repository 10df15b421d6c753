package api

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestEqual: the same file, arguments except for numbers and nearest living creator, also if the creator is dead; the
// one that is idle longest comes first, a busy descendant counts, and unknown arguments are equal to none.
func TestEqual(t *testing.T) {
	t0 := time.Unix(1000, 0)
	tree := Tree{}
	add := func(pid, creator int, idle time.Duration, exe string, argv ...string) *Process {
		busy := t0.Add(-idle)
		tree.Nodes = append(tree.Nodes, Node{Process: Process{Ref: Ref{PID: pid}, Creator: &Ref{PID: creator}, Exe: exe,
			Argv: argv, State: StateLive, Busy: &busy, RSSBytes: 1}})
		return &tree.Nodes[len(tree.Nodes)-1].Process
	}
	add(1, 0, 0, "/agent", "agent")
	add(10, 1, time.Hour, "/node", "node", "mcp.js", "--port=3000")
	add(11, 1, 3*time.Hour, "/node", "node", "mcp.js", "--port=31000")
	add(12, 11, 2*time.Hour, "/bin/cat", "cat") // busier than its creator
	add(13, 1, 0, "/bin/sh", "sh", "-c", "x").State = StateExited
	add(14, 13, 4*time.Hour, "/node", "node", "mcp.js", "--port=1")    // of a dead shell of the agent
	add(15, 10, 0, "/node", "node", "mcp.js", "--port=5")              // another creator
	add(16, 1, 0, "/opt/node", "node", "mcp.js", "--port=6")           // another file
	add(17, 1, 0, "/node", "node", "mcp.js --port=7")                  // another argument
	add(18, 1, 0, "/node", "node", "mcp.js", "--port=8").Argv = nil    // not to be read
	add(19, 1, 0, "/node", "node", "mcp.js", "-").ArgvTruncated = true // the rest may differ
	add(20, 1, 0, "/node", "node", "mcp.js", "-").ArgvTruncated = true
	add(21, 22, 0, "/loop", "a") // no daemon sends such a tree
	add(22, 21, 0, "/loop", "b")
	var got []string
	for _, g := range tree.Equal() {
		for _, p := range g.Processes {
			got = append(got, fmt.Sprint(g.Creator.PID, " ", p.PID, " ", t0.Sub(*p.Busy), " ", p.RSSBytes, "/", g.RSSBytes))
		}
	}
	if want := "1 14 4h0m0s 1/5; 1 11 2h0m0s 2/5; 1 10 0s 2/5"; strings.Join(got, "; ") != want {
		t.Errorf("%q", got)
	}
}
