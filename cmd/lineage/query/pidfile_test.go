//go:build linux

package query

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"golang.org/x/sys/unix"
)

// A PID file that another user made neither stops the command nor hides a process.
func TestPIDFiles(t *testing.T) {
	run := t.TempDir()
	shared := filepath.Join(run, "lock")
	err := errors.Join(os.Mkdir(shared, 0o755), os.Chmod(shared, 0o777|os.ModeSticky), os.Mkdir(filepath.Join(run, "db"), 0o755),
		os.WriteFile(filepath.Join(shared, "a.pid"), []byte("11\n"), 0o644),
		os.WriteFile(filepath.Join(run, "db", "db.pid"), []byte("12\n"), 0o644),
		os.WriteFile(filepath.Join(run, "cron.pid"), []byte("13"), 0o644),
		os.WriteFile(filepath.Join(run, "text.pid"), []byte("many words"), 0o644),
		unix.Mkfifo(filepath.Join(run, "db", "pid"), 0o600),
		unix.Mkfifo(filepath.Join(shared, "b.pid"), 0o600))
	require.NoError(t, err)
	all := Outsiders{Run: run}.pidFiles() // hangs if it opens a FIFO
	if len(all) != 2 || !all[12] || !all[13] {
		t.Errorf("%v", all)
	}
}
