//go:build linux

package follow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestLeftState: files that a killed exporter was writing are removed at the next start, and nothing else.
func TestLeftState(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"otlp.cursor", "otlp.cursor.new", "ocsf.cursor.new", "otlp.cursor.new-x", "my.notes.new", "x.cursor.new.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "x.cursor.new"), 0o700))
	store, err := OpenStore(dir)
	require.NoError(t, err)
	defer store.Close()
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	require.Equal(t, strings.Join(names, " "), "lock my.notes.new otlp.cursor otlp.cursor.new-x x.cursor.new x.cursor.new.txt")
}
