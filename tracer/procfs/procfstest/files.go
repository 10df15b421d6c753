//go:build linux

package procfstest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// Files writes files below a directory that stands for procfs, by their names there.
func Files(tb testing.TB, dir string, files map[string]string) {
	tb.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(tb, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(tb, os.WriteFile(path, []byte(text), 0o600))
	}
}
