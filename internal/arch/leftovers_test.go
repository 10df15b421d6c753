//go:build linux

package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestLeftovers: testdata/leftovers.sh finds what the tests of its checkout left, whatever its name is, and nothing of another's.
func TestLeftovers(t *testing.T) {
	require.Root(t)
	dir := t.TempDir()
	script := func(checkout, name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(dir, checkout, "testdata", name), args...)
		cmd.Env = append(os.Environ(), "TMPDIR="+dir, "WAIT=0")
		return cmd
	}
	for _, checkout := range []string{"ours", "theirs"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, checkout), 0o755), os.CopyFS(filepath.Join(dir, checkout, "testdata"), os.DirFS("../../testdata")))
	}
	name := filepath.Join(dir, "lngtest-left")
	require.NoError(t, os.Symlink("/bin/sh", name))
	left := script("theirs", "bpffs.sh", name, "-c", "echo; read -r line; :")
	in, err := left.StdinPipe()
	require.NoError(t, err)
	out, err := left.StdoutPipe()
	require.NoError(t, err, left.Start())
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	if said, err := script("ours", "leftovers.sh").CombinedOutput(); err != nil {
		t.Errorf("of another checkout: %s", said)
	}
	if said, err := script("theirs", "leftovers.sh").CombinedOutput(); err == nil || !strings.Contains(string(said), "lngtest-left") {
		t.Errorf("of its own: %v %s", err, said)
	}
	require.NoError(t, in.Close(), left.Wait())
}
