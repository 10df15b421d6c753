package arch

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// stored are what the daemon keeps for each session, process or user; and bounds that are shared by uid.
var stored = regexp.MustCompile(`^(\w+\.)?(SessionID|Identity|ID|Ref|slot|Share|List|lives|groupKey)$`)

// TestStores: each store of the daemon has a row of SECURITY.md's table of bounds, or a reason why its size follows from another one; a new one fails
// until it has. The numbers in the table are those of the code.
func TestStores(t *testing.T) {
	listed := make(map[string]string)
	text, err := os.ReadFile("testdata/stores")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if name, why, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && name[0] != '#' {
			listed[name] = why
		}
	}
	page, err := os.ReadFile("../../docs/SECURITY.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "| what is kept |")
	table, _, _ = strings.Cut(table, "\n## ")
	met := make(map[string]bool)
	nodes(t, []string{"daemon", "lineage"}, func(path string, at token.Position, n ast.Node) {
		s, ok := n.(*ast.TypeSpec)
		if !ok || strings.Contains(path, "test/") || strings.HasPrefix(path, "daemon/simulation") {
			return
		}
		fields, ok := s.Type.(*ast.StructType)
		if !ok {
			return
		}
		for _, f := range fields.Fields.List {
			for _, name := range f.Names {
				if key := filepath.Dir(path) + "." + s.Name.Name + "." + name.Name; store(f.Type) && !met[key] {
					if met[key] = true; listed[key] == "" {
						t.Errorf("%s: %s has no bound: say in testdata/stores which row of docs/SECURITY.md it is in", at, key)
					}
				}
			}
		}
	})
	for key, why := range listed {
		row, consts, bound := strings.Cut(why, " = ")
		if !strings.HasPrefix(key, "const ") && !met[key] {
			t.Errorf("%s is no store", key)
		} else if !strings.HasPrefix(why, "(") && !strings.Contains(table, "\n| "+row) {
			t.Errorf("%s: the table has no row %q", key, row)
		}
		line := table[max(strings.Index(table, "\n| "+row), 0):]
		line, _, _ = strings.Cut(strings.TrimPrefix(line, "\n"), "\n")
		for _, name := range strings.Fields(consts) {
			if n := number(t, name); bound && !slices.ContainsFunc(n, func(n string) bool { return strings.Contains(line, n) }) {
				t.Errorf("%s is %v, and %q does not say so", name, n, line)
			}
		}
	}
}

// store reports whether a field is a map by what the daemon follows, or a bound.
func store(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.MapType:
		return stored.MatchString(types.ExprString(x.Key))
	case *ast.StarExpr:
		if i, ok := x.X.(*ast.IndexExpr); ok {
			return stored.MatchString(types.ExprString(i.X))
		}
		return strings.HasSuffix(types.ExprString(x.X), "memory.Share")
	}
	return false
}

// number is a constant, package.name, in the ways in which a table says it.
func number(t *testing.T, name string) []string {
	dir, name, _ := strings.Cut(name, ".")
	var value constant.Value
	files, _ := filepath.Glob("../../" + dir + "/*.go")
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == 1 && v.Names[0].Name == name {
				if tv, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(v.Values[0])); err == nil {
					value = tv.Value
				}
			}
			return true
		})
	}
	if value == nil {
		t.Fatalf("%s has no constant %s", dir, name)
	}
	n, _ := constant.Int64Val(value)
	text := value.ExactString()
	if len(text) > 3 {
		text = text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return []string{text, constant.MakeInt64(n>>20).ExactString() + " MiB", constant.MakeInt64(n>>10).ExactString() + " KiB"}
}
