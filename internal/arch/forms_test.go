package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// forms are the structs that share six or more fields with api.Process, between the kernel and a screen: each of
// them has to learn of a new fact about a process. A sixth form is refused.
var forms = map[string]string{
	"tracer.Event":   "what the kernel reports of a process, and what the graph knows of it then",
	"lineage.Event":  "the same without the kernel: what the graph takes and completes",
	"lineage.node":   "a process in the graph",
	"lineage.Node":   "a copy of it, for other goroutines and the disk",
	"tracer.Process": "a process in a walk over the kernel's tasks",
}

const maxForms = 5 // it only goes down

// outsideForms have such fields for another reason.
var outsideForms = map[string]string{
	"api.Process":                           "the document",
	"api.Session":                           "of a session",
	"enforcer/policy.Match":                 "the words of a policy",
	"enforcer/policy.Facts":                 "what they are compared with",
	"cmd/lineage-export/ocsf.lineageFields": "the words of another standard",
}

// TestForms: no further struct is a process.
func TestForms(t *testing.T) {
	names := make(map[string]map[string]bool)
	for _, p := range packages(t) {
		if strings.HasPrefix(p.ImportPath, "internal/") || strings.HasSuffix(p.ImportPath, "test") {
			continue
		}
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			if ast.IsGenerated(f) {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if s, ok := spec.Type.(*ast.StructType); ok {
					fields := make(map[string]bool)
					for _, field := range s.Fields.List {
						for _, name := range field.Names {
							fields[strings.ToLower(name.Name)] = true
						}
					}
					names[p.ImportPath+"."+spec.Name.Name] = fields
				}
				return true
			})
		}
	}
	process := names["api.Process"]
	for _, key := range slices.Sorted(maps.Keys(names)) {
		var common []string
		for name := range names[key] {
			if process[name] {
				common = append(common, name)
			}
		}
		if many := len(common) >= 6; many != (forms[key] != "" || outsideForms[key] != "") {
			slices.Sort(common)
			t.Errorf("%s has %d fields of api.Process: %v; say in forms what for", key, len(common), common)
		}
	}
	if len(forms) > maxForms {
		t.Errorf("%d forms of a process", len(forms))
	}
}
