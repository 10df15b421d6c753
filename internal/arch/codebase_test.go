package arch

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/page"
	"github.com/lineage-ebpf/lineage/internal/require"
)

var update = flag.Bool("update", false, "write the table of docs/CODEBASE.md")

// TestCodebase: the table of docs/CODEBASE.md has the first sentence of each package's
// documentation, and a package imports only packages below it. Tests and tools have no row.
func TestCodebase(t *testing.T) {
	apart := regexp.MustCompile(`(^|/)internal/|/simulation$|test$`)
	product := slices.DeleteFunc(packages(t), func(p pkg) bool {
		if p.Doc == "" {
			t.Errorf("%s has no documentation", p.ImportPath)
		}
		return apart.MatchString(p.ImportPath)
	})
	slices.SortFunc(product, func(a, b pkg) int {
		return slices.Compare(strings.Split(a.ImportPath, "/"), strings.Split(b.ImportPath, "/"))
	})
	subject := regexp.MustCompile(`^((Package|Command) [a-z0-9]+|\S+) (is )?`)
	table := page.NewTable("package", "in one sentence")
	for _, p := range downwards(t, product) {
		table.Row("`"+p.ImportPath+"`", strings.TrimRight(subject.ReplaceAllString(p.Doc, ""), ".:"))
	}
	require.NoError(t, page.Keep("../../docs/CODEBASE.md", "product", table.String(), *update))
}

// downwards sorts packages so that each imports only those after it, else by path.
func downwards(t *testing.T, all []pkg) (sorted []pkg) {
	t.Helper()
	for len(all) > 0 {
		i := slices.IndexFunc(all, func(p pkg) bool {
			return !slices.ContainsFunc(all, func(importer pkg) bool { return slices.Contains(importer.Imports, module+"/"+p.ImportPath) })
		})
		if i < 0 {
			t.Fatalf("the imports of %v are a circle", all)
		}
		sorted = append(sorted, all[i])
		all = slices.Delete(all, i, i+1)
	}
	return sorted
}

// TestPaths: the files that these pages name exist.
func TestPaths(t *testing.T) {
	for _, page := range []string{"docs/CODEBASE.md", "docs/DESIGN.md", "CONTRIBUTING.md"} {
		for _, m := range regexp.MustCompile("`([a-z0-9_]+/[a-z0-9_/]+\\.(?:go|h|md|sh))`").FindAllStringSubmatch(read(t, page), -1) {
			_, err := os.Stat("../../" + m[1])
			require.NoError(t, err)
		}
	}
}

// TestWalks: each name in the walks of docs/CODEBASE.md is in the code of the file that is named
// last before it. Some have a bounded number of names and of files.
func TestWalks(t *testing.T) {
	_, walks, found := strings.Cut(read(t, "docs/CODEBASE.md"), "\n## Walks\n")
	if !found {
		t.Fatal("no walks")
	}
	most := map[string][2]int{
		"A row of the history": {11, 9}, "A row of `lineage top`": {15, 14}, "A command in a container": {23, 16},
		"An `end`": {12, 7}, "A signed command": {15, 8},
	}
	path := regexp.MustCompile(`^[a-z0-9_/]+\.(go|h)$`)
	for walk := range strings.SplitSeq(walks, "\n**") {
		title, text, _ := strings.Cut(walk, "**")
		stops, files, names := 0, make(map[string]bool), map[string]bool(nil)
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
			switch word := m[1]; {
			case path.MatchString(word):
				names, files[word] = namesIn(t, word), true
			case names != nil: // else it is what the user does
				stops++
				for part := range strings.SplitSeq(word, ".") {
					if !names[part] {
						t.Errorf("%s: %q is not in the file that is named before it", title, word)
					}
				}
			}
		}
		what, _, _ := strings.Cut(title, ",")
		if at, ok := most[what]; ok && (stops > at[0] || len(files) > at[1]) {
			t.Errorf("%s: %d names in %d files, at most %v", title, stops, len(files), at)
		}
		delete(most, what)
	}
	if len(most) > 0 {
		t.Errorf("no walk %v", most)
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
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			names[id.Name] = true
		}
		return true
	})
	return names
}
