package arch

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
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
