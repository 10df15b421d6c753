package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestNote(t *testing.T) {
	n := noteIn(t.TempDir())
	if text, there := n.Read(); there || text != "" {
		t.Errorf("%q is there already", text)
	}
	n.Remove()
	if !n.Add("a") || !n.Add("b") {
		t.Error("it cannot be kept")
	}
	if text, there := n.Read(); !there || text != "ab" {
		t.Errorf("%v, %q", there, text)
	}
	if !n.Write("c") {
		t.Error("it cannot be replaced")
	}
	for range 3 * most {
		n.Add("d")
	}
	if text, there := n.Read(); !there || !strings.HasPrefix(text, "cd") || len(text) != most {
		t.Errorf("%v, %q", there, text)
	}
	n.Remove()
	if _, there := n.Read(); there {
		t.Error("it was removed")
	}
}

// A user who may write to the directory decides where a link in it leads: nothing is written through
// one, and not into a directory that others may write to.
func TestNotOurs(t *testing.T) {
	require.Root(t)
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
		elsewhere, dir := t.TempDir(), filepath.Join(t.TempDir(), "runtime")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, make(dir, filepath.Join(elsewhere, "note")))
		if noteIn(dir).Add("x") {
			t.Errorf("%s: it says that it is kept", what)
		}
		if found, err := os.ReadDir(elsewhere); err != nil || len(found) > 0 {
			t.Errorf("%s: %v is written", what, found)
		}
	}
	t.Chdir(t.TempDir())
	if noteIn(".").Add("x") {
		t.Error("a relative directory: it says that it is kept")
	}
}

func replace(dir string, by func() error) error {
	if err := os.Remove(dir); err != nil {
		return err
	}
	return by()
}
