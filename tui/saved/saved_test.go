package saved

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestSaveAndLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lineage", "top.json")
	if s, err := Load(file); err != nil || !reflect.DeepEqual(s, State{}) {
		t.Errorf("without a file: %+v, %v", s, err)
	}
	want := State{Sort: "rss", Reverse: true, Exited: true, Columns: []string{"cpu", "age"}, Folds: []string{"k3x9q2", "7@8"}}
	for range 2 {
		require.NoError(t, Save(file, want))
		if got, err := Load(file); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestBroken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "top.json")
	for _, text := range []string{"", "{", "[]", `{"sort":7}`, strings.Repeat(" ", most) + "{}", "\x00\xff"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		if s, err := Load(file); err == nil || !reflect.DeepEqual(s, State{}) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.10q: %+v, %v", text, s, err)
		}
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("a directory is read")
	}
}

// Root writes nothing where another user could have put a link.
func TestForeignDirectory(t *testing.T) {
	require.Root(t)
	for name, make := range map[string]func(dir, elsewhere string) error{
		"owned by another user": func(dir, _ string) error {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			return os.Chown(dir, 65534, 65534)
		},
		"a link of another user's": func(dir, elsewhere string) error {
			if err := os.Symlink(elsewhere, dir); err != nil {
				return err
			}
			return os.Lchown(dir, 65534, 65534)
		},
	} {
		home, elsewhere := t.TempDir(), t.TempDir()
		dir := filepath.Join(home, "state")
		require.NoError(t, make(dir, elsewhere))
		if err := Save(filepath.Join(dir, "lineage", "top.json"), State{Sort: "rss"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, d := range []string{dir, elsewhere} {
			if left, _ := os.ReadDir(d); len(left) != 0 {
				t.Errorf("%s: wrote %v", name, left)
			}
		}
	}
}

func TestFile(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"/s/lineage/top.json":              {"XDG_STATE_HOME": "/s", "HOME": "/h"},
		"/h/.local/state/lineage/top.json": {"XDG_STATE_HOME": "relative", "HOME": "/h"},
		"":                                 {"HOME": "relative"},
	} {
		if got := File(func(name string) string { return env[name] }); got != want {
			t.Errorf("%v: %q, want %q", env, got, want)
		}
	}
}
