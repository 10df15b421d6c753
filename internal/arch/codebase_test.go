package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
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

// TestWalks: each name in the walks of docs/CODEBASE.md is in the code of the file that is named
// last before it.
func TestWalks(t *testing.T) {
	_, walks, found := strings.Cut(read(t, "docs/CODEBASE.md"), "\n## Two walks\n")
	if !found {
		t.Fatal("no walks")
	}
	path, names := regexp.MustCompile(`^[a-z0-9_/]+\.(go|h)$`), map[string]bool(nil)
	for line := range strings.Lines(walks) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line, -1) {
			switch word := m[1]; {
			case path.MatchString(word):
				names = namesIn(t, word)
			case strings.HasPrefix(line, "**"): // what the user does
			default:
				for part := range strings.SplitSeq(word, ".") {
					if !names[part] {
						t.Errorf("%q is not in the file that is named before it: %s", word, line)
					}
				}
			}
		}
	}
}

// namesIn are the words of a file's code, without its comments.
func namesIn(t *testing.T, path string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	if !strings.HasSuffix(path, ".go") {
		code := regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`).ReplaceAllString(read(t, path), "")
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(code, -1) {
			names[name] = true
		}
		return names
	}
	f, err := parser.ParseFile(token.NewFileSet(), "../../"+path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			names[id.Name] = true
		}
		return true
	})
	return names
}
