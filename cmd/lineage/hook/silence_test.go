package hook

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestNote(t *testing.T) {
	for what, n := range map[string]*Note{"runtime directory": noteIn(t.TempDir(), t.TempDir()),
		"below TMPDIR": noteIn("", t.TempDir()), "relative": noteIn(".", t.TempDir())} {
		if text, there := n.Read(); there || text != "" {
			t.Errorf("%s: %q is there already", what, text)
		}
		n.Remove()
		if !n.Add("a") || !n.Add("b") {
			t.Errorf("%s: it cannot be kept", what)
		}
		if text, there := n.Read(); !there || text != "ab" {
			t.Errorf("%s: %v, %q", what, there, text)
		}
		if !n.Write("c") {
			t.Errorf("%s: it cannot be replaced", what)
		}
		for range 3 * most {
			n.Add("d")
		}
		if text, there := n.Read(); !there || !strings.HasPrefix(text, "cd") || len(text) != most {
			t.Errorf("%s: %v, %q", what, there, text)
		}
		n.Remove()
		if _, there := n.Read(); there {
			t.Errorf("%s: it was removed", what)
		}
	}
}

// A user who may write to the directory decides where a link in it leads: nothing is written through
// one, and not into a directory that others may write to.
func TestNotOurs(t *testing.T) {
	require.Root(t)
	private := fmt.Sprintf("lineage-%d", os.Geteuid())
	for what, make := range map[string]func(dir, victim string) error{
		"a link in its place": func(dir, victim string) error { return os.Symlink(victim, filepath.Join(dir, "note")) },
		"a link as directory": func(dir, victim string) error {
			return replace(dir, func() error { return os.Symlink(filepath.Dir(victim), dir) })
		},
		"another user's":          func(dir, _ string) error { return os.Chown(dir, 65534, 65534) },
		"a directory of everyone": func(dir, _ string) error { return os.Chmod(dir, 0o777) },
		"a file":                  func(dir, _ string) error { return replace(dir, func() error { return os.WriteFile(dir, nil, 0o600) }) },
		"a directory in place":    func(dir, _ string) error { return os.Mkdir(filepath.Join(dir, "note"), 0o700) },
	} {
		for _, runtime := range []bool{true, false} {
			tmp, elsewhere := t.TempDir(), t.TempDir()
			dir := filepath.Join(tmp, private)
			require.NoError(t, os.Mkdir(dir, 0o700))
			victim := filepath.Join(elsewhere, "note")
			require.NoError(t, make(dir, victim))
			n := noteIn("", tmp)
			if runtime {
				n = noteIn(dir, victim) // below which nothing can be made
			}
			if n.Add("x") {
				t.Errorf("%s, runtime directory %v: it says that it is kept", what, runtime)
			}
			if found, err := os.ReadDir(elsewhere); err != nil || len(found) > 0 {
				t.Errorf("%s, runtime directory %v: %v is written", what, runtime, found)
			}
		}
	}
	// Then the user's own directory is taken.
	theirs := t.TempDir()
	require.NoError(t, os.Chown(theirs, 65534, 65534))
	n := noteIn(theirs, t.TempDir())
	if found, err := os.ReadDir(theirs); !n.Add("x") || err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func replace(dir string, by func() error) error {
	if err := os.Remove(dir); err != nil {
		return err
	}
	return by()
}
