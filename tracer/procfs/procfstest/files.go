//go:build linux

package procfstest

import (
	"os"
	"path/filepath"
	"testing"
)

// Files writes files below a directory that stands for procfs, by their names there.
func Files(tb testing.TB, dir string, files map[string]string) {
	tb.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}
