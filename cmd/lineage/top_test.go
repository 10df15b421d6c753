package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// Without a terminal, top prints the current state once.
func TestTopOffATerminal(t *testing.T) {
	w := newWorld(t, newFake())
	golden(t, "top", w.record("top", "build")+w.record("top", "--ascii", "build"))
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
		root.PersistentPreRun(cmd, args)
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

// recording is a file, and what is in it.
func recording(t *testing.T) (file, recorded string) {
	code, recorded, stderr := newWorld(t, newFake()).run("events", "-o", "jsonl", "--snapshot")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	file = filepath.Join(t.TempDir(), "recording")
	require.NoError(t, os.WriteFile(file, []byte(recorded), 0o600))
	return file, recorded
}

// A recording needs no daemon. Without a terminal it is drawn as by tree.
func TestTopRecording(t *testing.T) {
	file, _ := recording(t)
	w := newWorld(t, nil)
	code, top, stderr := w.run("top", "-i", file)
	_, tree, _ := w.run("tree", "-i", file)
	if code != 0 || top != tree || top == "" {
		t.Errorf("exit %d: %s%s", code, top, stderr)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("root:x:0:0\n"), 0o600))
	for _, onTerminal := range []bool{false, true} {
		for line, want := range map[string]struct {
			code int
			says string
		}{
			"top -i " + bad:                   {1, "not a recording"},
			"top -i /nosuch/lngtest":          {3, "/nosuch/lngtest: no such file"},
			"top -i " + file + " nosuch":      {3, "nosuch: not "},
			"top --speed 2":                   {2, "--speed is for a recording"},
			"top --speed -1 -i " + file:       {2, "must be 0 or more"},
			"top --speed NaN --input " + file: {2, "must be 0 or more"},
		} {
			w := newWorld(t, nil)
			if onTerminal {
				y := newTypist(t, 80, "", "", nil)
				w.Stdin, w.Stdout = y.tty, y.tty
			}
			code, stdout, stderr := w.run(strings.Fields(line)...)
			if code != want.code || stdout != "" || !strings.Contains(stderr, want.says) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s, terminal %t: exit %d, %s%s", line, onTerminal, code, stdout, stderr)
			}
		}
	}
}
