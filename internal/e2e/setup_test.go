//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Under sudo setup changes the calling user's file, with that user's rights: a directory
// that only root may write stays as it is.
func TestSetupUnderSudo(t *testing.T) {
	i := stage.New(t)
	home := filepath.Join(i.Dir, "home") // nobody's, in a passwd of the test's own
	passwd := filepath.Join(i.Dir, "passwd")
	require.NoError(t, os.WriteFile(passwd, []byte("root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::"+home+":/bin/sh\n"), 0o644))
	require.NoError(t, unix.Mount(passwd, "/etc/passwd", "", unix.MS_BIND, ""))
	defer unix.Unmount("/etc/passwd", 0)
	require.NoError(t, os.Mkdir(home, 0o755))
	env := []string{"SUDO_UID=65534", "SUDO_USER=nobody"}
	p := i.Start([]string{"setup", "claude-code", "--yes"}, env).Wait()
	if p.Code() != 1 || !strings.Contains(p.Err.String(), "permission denied") ||
		strings.Count(p.Err.String(), "\n") != 1 {
		t.Errorf("%v", p)
	}
	require.NoError(t, os.Chown(home, stage.Nobody, stage.Nobody))
	if p := i.Start([]string{"setup", "claude-code", "--yes"}, env).Wait(); p.Code() != 0 {
		t.Errorf("%v", p)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(home, ".claude/settings.json"), &st); err != nil ||
		st.Uid != stage.Nobody || st.Gid != stage.Nobody {
		t.Errorf("%v, of %d:%d", err, st.Uid, st.Gid)
	}
}
