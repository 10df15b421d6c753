//go:build linux

package recipes

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// blocks are the recipes by name, unchanged. Every block of RECIPES.md has a name.
func blocks(t *testing.T) map[string]string {
	t.Helper()
	all, text := stage.Recipes(t, "docs/RECIPES.md")
	if marks, fences := strings.Count(text, "\n<!-- recipe:"), strings.Count(text, "\n```"); marks != len(all) || 2*marks != fences {
		t.Fatalf("%d marks, %d blocks, %d fences", marks, len(all), fences)
	}
	agents, _ := stage.Recipes(t, "docs/AGENTS.md")
	maps.Copy(all, agents)
	return all
}

func recipe(t *testing.T, name string) string {
	t.Helper()
	text := blocks(t)[name]
	if text == "" {
		t.Fatalf("there is no recipe %s", name)
	}
	return text
}

// A kitchen is an instance with a folder of programs: lineage and stand-ins.
type kitchen struct {
	*stage.Instance
	marker *stage.Marker
	bin    string
}

// newKitchen starts a daemon, and makes a stand-in for each named program.
func newKitchen(t *testing.T, programs ...string) *kitchen {
	t.Helper()
	i := stage.NewDaemon(t)
	k := &kitchen{Instance: i, marker: stage.NewMarker(t, i.Dir), bin: filepath.Join(i.Dir, "bin")}
	require.NoError(t, os.Mkdir(k.bin, 0o755))
	require.NoError(t, os.Symlink(i.Copy(stage.Lineage), filepath.Join(k.bin, "lineage")))
	for _, name := range programs {
		k.program(name, `echo "ran ${0##*/} $*" >&9
(setsid sleep 300 &)
exit ${LNGTEST_CODE-3}`)
	}
	return k
}

// program makes a stand-in. It holds the marker as descriptor 9, and so do its
// children.
func (k *kitchen) program(name, script string) {
	k.T.Helper()
	text := "#!/bin/bash\nexec 9>\"$LNGTEST_MARKER\"\n" + script + "\n"
	require.NoError(k.T, os.WriteFile(filepath.Join(k.bin, name), []byte(text), 0o755))
}

// file writes a file into the instance's folder.
func (k *kitchen) file(name, text string) string {
	k.T.Helper()
	path := filepath.Join(k.Dir, name)
	require.NoError(k.T, os.WriteFile(path, []byte(text), 0o755))
	return path
}

// start runs a command with the kitchen's programs before the system's.
func (k *kitchen) start(env []string, args ...string) *stage.Process {
	k.T.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = slices.Concat(k.marker.Env(), []string{
		"PATH=" + k.bin + ":" + os.Getenv("PATH"), "LINEAGE_SOCKET=" + k.Socket, "HOME=" + k.Dir, "LC_ALL=C.UTF-8",
	}, env)
	cmd.Dir = k.Dir
	return stage.Start(k.T, cmd)
}

// installed runs a command with the kitchen's programs in /usr/local/bin, for recipes
// that name them there. Other processes do not see them there.
func (k *kitchen) installed(env []string, args ...string) *stage.Process {
	k.T.Helper()
	const script = `mount --bind "$0" /usr/local/bin && exec "$@"`
	return k.start(env, slices.Concat([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", script, k.bin}, args)...)
}

// ran demands that a stand-in was run with these arguments, once.
func (k *kitchen) ran(what string) {
	k.T.Helper()
	k.marker.Line("ran", 1)
	if got := k.marker.Lines("ran"); len(got) != 1 || strings.Join(got[0], " ") != what {
		k.T.Errorf("ran %q, want %q", got, what)
	}
}
