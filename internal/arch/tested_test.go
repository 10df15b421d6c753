package arch

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

const (
	hallTests = 2000 // lines of tests in package daemon
	untested  = 300  // lines of a package without tests
	leastTest = 10   // percent of a package's lines that its tests have at least
)

// testedBy has the packages whose code the tests of another package run, and why they stay there.
var testedBy = map[string]string{
	"cmd/lineage/ending": "cmd/lineage: its golden files are what the commands print",
	"cmd/lineage/query":  "cmd/lineage: its golden files are what the commands print",
	"cmd/lineage/text":   "cmd/lineage: its golden files are what the commands print",
	"tui/details":        "tui: its golden files are whole frames",
	"tui/dialog":         "tui: its golden files are whole frames",
	"tui/ink":            "tui: its golden files are whole frames",
}

// TestTested: a package of some size has tests of its own, and the tests of package daemon are about
// what it does itself: start, stop, take-over and wiring. How much of a package its own tests reach is
// measured by testdata/cover.sh.
func TestTested(t *testing.T) {
	for _, p := range packages(t) {
		if strings.HasPrefix(p.ImportPath, "internal/") || strings.HasSuffix(p.ImportPath, "test") {
			continue
		}
		lines, tests := linesOf(t, p.Dir, p.GoFiles), linesOf(t, p.Dir, slices.Concat(p.TestGoFiles, p.XTestGoFiles))
		switch few := lines > untested && tests*100 < lines*leastTest; {
		case few && testedBy[p.ImportPath] == "":
			t.Errorf("%s has %d lines, and %d lines of tests", p.ImportPath, lines, tests)
		case !few && testedBy[p.ImportPath] != "":
			t.Errorf("%s has tests of its own: remove it from testedBy", p.ImportPath)
		}
		if p.ImportPath == "daemon" && tests > hallTests {
			t.Errorf("%s has %d lines of tests, more than %d: those of a feature belong to its package", p.ImportPath, tests, hallTests)
		}
	}
}

// linesOf is how many lines files have that are written by hand.
func linesOf(t *testing.T, dir string, names []string) (n int) {
	t.Helper()
	for _, name := range names {
		text := require.ReadFile(t, filepath.Join(dir, name))
		if !bytes.Contains(text, []byte("// Code generated ")) {
			n += bytes.Count(text, []byte("\n"))
		}
	}
	return n
}
