package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOneReceipt: only api/display puts what became of ports and locks into words. The
// commands and the live tree show its words.
func TestOneReceipt(t *testing.T) {
	fields := []string{"PortsFreed", "PortsTimeWait", "PortsBusy", "LocksReleased", "LocksHeld", "OutputHeldBy", "HoldsUnknown"}
	for _, p := range packages(t) {
		if top, _, _ := strings.Cut(p.ImportPath, "/"); top != "cmd" && top != "tui" {
			continue
		}
		fset := token.NewFileSet()
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(fields, s.Sel.Name) {
					t.Errorf("%s: reads %s of a report; display.AfterEnd has it in words", fset.Position(s.Pos()), s.Sel.Name)
				}
				return true
			})
		}
	}
}
