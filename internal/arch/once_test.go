package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestOneReceipt: only api/display puts a receipt into words: what became of processes, ports and locks. The
// commands, the page and the live tree show its words.
func TestOneReceipt(t *testing.T) {
	fields := []string{"PortsFreed", "PortsTimeWait", "PortsBusy", "LocksReleased", "LocksHeld", "OutputHeldBy", "HoldsUnknown"}
	nodes(t, []string{"cmd", "tui"}, func(_ string, at token.Position, n ast.Node) {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(fields, s.Sel.Name) {
			t.Errorf("%s: reads %s of a report; display.Receipted has it in words", at, s.Sel.Name)
		}
	})
}

// TestOneEnd: only daemon/acts asks the guards of ends, and reads what members hold before a signal, so that every end
// has its one order of steps.
func TestOneEnd(t *testing.T) {
	left := map[string]bool{"CheckEnds": true, "CollectBefore": true}
	nodes(t, []string{"cmd", "daemon", "enforcer"}, func(path string, at token.Position, n ast.Node) {
		s, ok := n.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "CheckEnds" && s.Sel.Name != "CollectBefore" {
			return
		}
		if delete(left, s.Sel.Name); !strings.HasPrefix(path, "daemon/acts/") {
			t.Errorf("%s: calls %s; daemon/acts does", at, s.Sel.Name)
		}
	})
	if len(left) > 0 {
		t.Errorf("nothing calls %v", left)
	}
}

// TestOneClient: tests have one implementation of api.Client, so that a new method is added
// to one. A test that wants another answer gives it to apitest.Client.
func TestOneClient(t *testing.T) {
	fset := token.NewFileSet()
	methods := make(map[string]int) // how many parameters they have
	client, err := parser.ParseFile(fset, "../../api/client.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(client, func(n ast.Node) bool {
		if s, ok := n.(*ast.TypeSpec); ok && s.Name.Name == "Client" {
			for _, m := range s.Type.(*ast.InterfaceType).Methods.List {
				if m.Names[0].Name != "Close" {
					methods[m.Names[0].Name] = m.Type.(*ast.FuncType).Params.NumFields()
				}
			}
		}
		return true
	})
	if len(methods) < 20 {
		t.Fatalf("api.Client has the methods %v", methods)
	}
	goFiles(t, func(path string, fset *token.FileSet, f *ast.File) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil && methods[n.Name.Name] == n.Type.Params.NumFields() && takesContext(n) {
					t.Errorf("%s: %s is a method of api.Client", fset.Position(n.Pos()), n.Name.Name)
				}
			case *ast.StructType:
				for _, field := range n.Fields.List {
					if s, ok := field.Type.(*ast.SelectorExpr); ok && field.Names == nil && s.Sel.Name == "Client" && s.X.(*ast.Ident).Name == "api" {
						t.Errorf("%s: embeds api.Client", fset.Position(field.Pos()))
					}
				}
			}
			return true
		})
	})
}

// takesContext reports whether the first parameter is a context.Context.
func takesContext(f *ast.FuncDecl) bool {
	if len(f.Type.Params.List) == 0 {
		return false
	}
	s, ok := f.Type.Params.List[0].Type.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Context"
}
