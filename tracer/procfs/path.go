//go:build linux

package procfs

import (
	"path/filepath"
	"strings"
)

// Base is the name of a file, "" if there is none.
func Base(path string) string {
	path = strings.TrimSuffix(path, " (deleted)") // an upgrade replaces what runs
	if path == "" {
		return ""
	}
	if name, ok := strings.CutPrefix(path, "/memfd:"); ok {
		name, _, _ = strings.Cut(name, ":")
		return name
	}
	return filepath.Base(path)
}
