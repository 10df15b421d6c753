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
	for _, tt := range []struct{ line, theme, noColor, want string }{
		{"", "", "", "auto"}, {"", "contrast", "", "contrast"}, {"--theme auto", "contrast", "", "auto"}, {"", "contrast", "1", "mono"},
		{"--color never", "", "", "mono"}, {"--color always", "", "1", "auto"},
	} {
		w := newWorld(t, newFake())
		w.vars["LINEAGE_THEME"], w.vars["NO_COLOR"] = tt.theme, tt.noColor
		root := w.root()
		cmd, args, err := root.Find(strings.Fields("top " + tt.line))
		require.NoError(t, err)
		require.NoError(t, cmd.ParseFlags(args))
		require.NoError(t, root.PersistentPreRunE(cmd, args))
		got, err := w.topTheme(cmd.Flag("theme").Value.String(), cmd.Flags().Changed("theme"))
		if err != nil || got != tt.want {
			t.Errorf("%+v: %s, %v", tt, got, err)
		}
	}
	w := newWorld(t, newFake())
	w.vars["LINEAGE_THEME"] = "night"
	want := "lineage: top: LINEAGE_THEME: invalid theme \"night\": must be one of auto, dark, light, contrast, mono\n"
	if code, stdout, stderr := w.run("top"); code != 2 || stdout != "" || stderr != want {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
}
