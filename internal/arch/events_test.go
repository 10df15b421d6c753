package arch

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// eventSwitches is how many switches over types of events there may be: each has to learn of a new type. It only goes down.
const eventSwitches = 4

// TestEventTypes: only package api spells the types of events, and every switch over one
// names all of them or has a default.
func TestEventTypes(t *testing.T) {
	c := checked(t)
	wire := c.done[module+"/api"]
	eventType := wire.Scope().Lookup("EventType").Type()
	all := make(map[string]bool)
	for _, name := range wire.Scope().Names() {
		if c, ok := wire.Scope().Lookup(name).(*types.Const); ok && types.Identical(c.Type(), eventType) {
			all[constant.StringVal(c.Val())] = true
		}
	}
	var switches []string
	for _, f := range c.files {
		if f.Name.Name == "api" {
			continue // it may spell them
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if is := c.info.Types[n]; is.Type == eventType && constant.StringVal(is.Value) != "" {
					t.Errorf("%s: name the constant of package api", c.fset.Position(n.Pos()))
				}
			case *ast.SwitchStmt:
				if n.Tag == nil {
					break
				}
				tag := c.info.Types[n.Tag].Type
				if named, ok := tag.(*types.Named); ok && named.Obj().Name() == "EventType" {
					switches = append(switches, c.fset.Position(n.Pos()).String())
				}
				if tag != eventType {
					break
				}
				if missing := missing(n, c.info, all); len(missing) > 0 {
					t.Errorf("%s: the switch has no case for %q and no default", c.fset.Position(n.Pos()), missing)
				}
			}
			return true
		})
	}
	switches = slices.DeleteFunc(switches, func(at string) bool { return strings.Contains(at, "/internal/") || strings.Contains(at, "test/") })
	if len(switches) != eventSwitches {
		t.Errorf("%d switches over types of events, want %d: %q", len(switches), eventSwitches, switches)
	}
}

// TestFieldsAreSet: each field of a document of package api is set somewhere in the product. docs/openapi.json has the fields from
// the types, so it also has those that nothing sends.
func TestFieldsAreSet(t *testing.T) {
	c := checked(t)
	set := make(map[types.Object]bool)
	field := func(e ast.Expr) {
		if x, ok := e.(*ast.SelectorExpr); ok {
			e = x.Sel
		}
		if name, ok := e.(*ast.Ident); ok {
			set[c.info.Uses[name]] = true
		}
	}
	for _, f := range c.files {
		if strings.Contains(c.fset.Position(f.Pos()).Filename, "test/") {
			continue // a fake
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				field(n.Key)
			case *ast.AssignStmt:
				for i, e := range n.Lhs {
					if value, ok := n.Rhs[min(i, len(n.Rhs)-1)].(*ast.Ident); !ok || value.Name != "nil" {
						field(e)
					}
				}
			case *ast.IncDecStmt:
				field(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					field(n.X)
				}
			}
			return true
		})
	}
	scope := c.done[module+"/api"].Scope()
	for _, name := range scope.Names() {
		s, ok := scope.Lookup(name).Type().Underlying().(*types.Struct)
		if strings.HasSuffix(name, "Request") {
			continue // of the caller
		}
		for i := 0; ok && i < s.NumFields(); i++ {
			if f := s.Field(i); strings.Contains(s.Tag(i), "json:") && !set[f] {
				t.Errorf("nothing sets %s.%s", name, f.Name())
			}
		}
	}
}

// missing are the values that a switch has no case for.
func missing(s *ast.SwitchStmt, info *types.Info, all map[string]bool) (values []string) {
	named := make(map[string]bool)
	for _, c := range s.Body.List {
		exprs := c.(*ast.CaseClause).List
		if exprs == nil {
			return nil
		}
		for _, e := range exprs {
			if v := info.Types[e].Value; v != nil {
				named[constant.StringVal(v)] = true
			}
		}
	}
	for v := range all {
		if !named[v] {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return values
}

// checker makes the types of our packages from their source. Other packages are empty for it, so that
// nothing has to be built; what depends on them has no type, and is not checked.
type checker struct {
	t     *testing.T
	fset  *token.FileSet
	ours  map[string]pkg
	done  map[string]*types.Package
	info  *types.Info
	files []*ast.File
}

var checkedOnce *checker

// checked has the types of all packages.
func checked(t *testing.T) *checker {
	t.Helper()
	if checkedOnce == nil {
		c := &checker{
			t: t, fset: token.NewFileSet(), ours: make(map[string]pkg), done: make(map[string]*types.Package),
			info: &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Uses: make(map[*ast.Ident]types.Object)},
		}
		for _, p := range packages(t) {
			c.ours[p.ImportPath] = p
		}
		for path := range c.ours {
			c.Import(module + "/" + path)
		}
		checkedOnce = c
	}
	return checkedOnce
}

func (c *checker) Import(path string) (*types.Package, error) {
	if done := c.done[path]; done != nil {
		return done, nil
	}
	name, _ := short(path)
	p, ours := c.ours[name]
	if !ours {
		empty := types.NewPackage(path, filepath.Base(path))
		empty.MarkComplete()
		return empty, nil
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		require.NoError(c.t, err)
		files = append(files, f)
	}
	c.files = append(c.files, files...)
	config := types.Config{Importer: c, Error: func(error) {}}
	c.done[path], _ = config.Check(path, c.fset, files, c.info)
	return c.done[path], nil
}
