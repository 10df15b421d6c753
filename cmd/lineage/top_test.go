package main

import (
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// Without a terminal, top prints the current state once.
func TestTopOffATerminal(t *testing.T) {
	w := newWorld(t, newFake())
	golden(t, "top", w.record("top", "build"))
	_, tree, _ := w.run("tree")
	if _, top, _ := w.run("top"); top != tree {
		t.Errorf("top prints\n%s\ntree prints\n%s", top, tree)
	}
}

func TestTopTheme(t *testing.T) {
	for _, tt := range []struct{ line, noColor, want string }{
		{"", "", "auto"}, {"--theme light", "", "light"}, {"--theme light", "1", "mono"},
		{"--color never", "", "mono"}, {"--color always", "1", "auto"},
	} {
		w := newWorld(t, newFake())
		w.vars["NO_COLOR"] = tt.noColor
		root := w.root()
		cmd, args, err := root.Find(strings.Fields("top " + tt.line))
		require.NoError(t, err)
		require.NoError(t, cmd.ParseFlags(args))
		require.NoError(t, root.PersistentPreRunE(cmd, args))
		require.Equal(t, w.topTheme(cmd.Flag("theme").Value.String()), tt.want)
	}
}
