package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

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
