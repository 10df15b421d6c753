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
)

// phrases should not be in comments, because there are plainer words for them: "not
// a", "the process that", "continues", "automatically". Each has the number of times
// that comments have it now. These numbers only go down.
var phrases = map[string]int{
	"another than": 1,
	"by itself":    38,
	"goes on":      25,
	"is no":        57,
	"is none":      51,
	"is told":      50,
	"no more":      17,
	"not taken":    3,
	"of before":    4,
	"others than":  1,
	"so many":      15,
	"stands in":    5,
	"stranger":     26,
	"strangers":    12,
	"there twice":  2,
	"what came of": 11,
	"whoever":      59,
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
	if err != nil {
		t.Fatal(err)
	}
}
