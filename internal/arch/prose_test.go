package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// phrases should not be in comments, because there are plainer words for them: "not
// a", "the process that", "continues", "automatically". Each has the number of times
// that comments have it now. These numbers only go down.
var phrases = map[string]int{
	"another than": 0,
	"by itself":    0,
	"goes on":      0,
	"is no":        18,
	"is none":      34,
	"is told":      1,
	"no more":      4,
	"not taken":    1,
	"of before":    0,
	"others than":  0,
	"so many":      0,
	"stands in":    0,
	"stranger":     0,
	"strangers":    0,
	"there twice":  0,
	"what came of": 0,
	"whoever":      0,
}

// plain are phrases that have one of those in them, and are right.
var plain = regexp.MustCompile(`is no longer|no more than`)

// TestProse counts the phrases in all comments of the Go code, in both directions.
func TestProse(t *testing.T) {
	now := make(map[string]int)
	for _, text := range comments(t) {
		for phrase := range phrases {
			now[phrase] += len(regexp.MustCompile(`\b`+phrase+`\b`).FindAllString(text, -1))
		}
	}
	for _, phrase := range slices.Sorted(maps.Keys(phrases)) {
		switch n, was := now[phrase], phrases[phrase]; {
		case n > was:
			t.Errorf("comments say %q %d times, before %d: say it in plainer words", phrase, n, was)
		case n < was:
			t.Errorf("comments say %q %d times: lower it from %d in phrases", phrase, n, was)
		}
	}
}

// comments are those of every Go file that is not generated, each on one line and in
// lower case.
func comments(t *testing.T) (all []string) {
	t.Helper()
	goFiles(t, func(_ string, _ *token.FileSet, f *ast.File) {
		for _, group := range f.Comments {
			text := strings.ToLower(strings.Join(strings.Fields(group.Text()), " "))
			all = append(all, plain.ReplaceAllString(text, ""))
		}
	})
	return all
}

// goFiles calls each for every Go file that is not generated.
func goFiles(t *testing.T, each func(path string, fset *token.FileSet, f *ast.File)) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "../.." && (d.Name() == "testdata" || d.Name() == "bin" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err == nil && !ast.IsGenerated(f) {
			each(path, fset, f)
		}
		return err
	})
	require.NoError(t, err)
}

// nodes calls each for every node of the programs below these folders, with the path of its file.
func nodes(t *testing.T, folders []string, each func(path string, at token.Position, n ast.Node)) {
	t.Helper()
	goFiles(t, func(path string, fset *token.FileSet, f *ast.File) {
		path = strings.TrimPrefix(path, "../../")
		top, _, _ := strings.Cut(path, "/")
		if strings.HasSuffix(path, "_test.go") || !slices.Contains(folders, top) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if n != nil {
				each(path, fset.Position(n.Pos()), n)
			}
			return true
		})
	})
}
