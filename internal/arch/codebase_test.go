package arch

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCodebase compares the tables of docs/CODEBASE.md with the packages: each package
// is listed once, and imports only packages below it. Tests and tools come last, and
// may import from both tables.
func TestCodebase(t *testing.T) {
	text, err := os.ReadFile("../../docs/CODEBASE.md")
	if err != nil {
		t.Fatal(err)
	}
	tables, _, found := strings.Cut(string(text), "\n## Nouns")
	if !found {
		t.Fatal("no section of nouns")
	}
	var product, tools []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(tables, -1) {
		if strings.HasPrefix(row[1], "internal/") {
			tools = append(tools, row[1])
		} else {
			product = append(product, row[1])
		}
	}
	order := slices.Concat(tools, product)
	all := packages(t)
	for _, p := range all {
		at := slices.Index(order, p.ImportPath)
		if at < 0 {
			t.Errorf("docs/CODEBASE.md has no row for %s", p.ImportPath)
			continue
		}
		for _, path := range p.Imports {
			if path, ours := short(path); ours && slices.Index(order, path) < at {
				t.Errorf("docs/CODEBASE.md has %s above %s, which imports it", path, p.ImportPath)
			}
		}
	}
	if len(order) != len(all) {
		t.Errorf("docs/CODEBASE.md has %d rows, there are %d packages", len(order), len(all))
	}
}

// TestPaths: the files that docs/CODEBASE.md names exist.
func TestPaths(t *testing.T) {
	for _, m := range regexp.MustCompile("`([a-z0-9_/]+\\.(?:go|h|md|sh))`").FindAllStringSubmatch(read(t, "docs/CODEBASE.md"), -1) {
		if _, err := os.Stat("../../" + m[1]); err != nil {
			t.Error(err)
		}
	}
}
