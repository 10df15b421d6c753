package main

import (
	"strings"
	"testing"
)

// Off a terminal top is a picture of now.
func TestTopOffATerminal(t *testing.T) {
	w := newWorld(t, newFake())
	golden(t, "top", w.record("top", "build")+w.record("top", "--ascii", "build"))
	_, tree, _ := w.run("tree")
	if _, top, _ := w.run("top"); top != tree {
		t.Errorf("top prints\n%s\ntree prints\n%s", top, tree)
	}
}

func TestTopErrors(t *testing.T) {
	for _, tt := range []struct {
		line, theme string
		code        int
		says        string
	}{
		{"top nosuch", "", 3, "session nosuch: not found"},
		{"top a b", "", 2, `unexpected argument "b"`},
		{"top --theme dark", "", 2, "want one of auto, contrast, mono"},
		{"top", "dark", 2, `LINEAGE_THEME: theme "dark": want one of auto, contrast, mono`},
	} {
		w := newWorld(t, newFake())
		w.vars["LINEAGE_THEME"] = tt.theme
		code, stdout, stderr := w.run(strings.Fields(tt.line)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s%s", tt.line, code, stdout, stderr)
		}
	}
	if code, _, stderr := newWorld(t, nil).run("top"); code != 5 {
		t.Errorf("no daemon: exit %d, %s", code, stderr)
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
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		got, err := w.topTheme(cmd.Flag("theme").Value.String(), cmd.Flags().Changed("theme"))
		if err != nil || got != tt.want {
			t.Errorf("%+v: %s, %v", tt, got, err)
		}
	}
}
