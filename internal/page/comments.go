package page

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// Comments are the comments of the types and fields in the Go files of dir, by "Type" and "Type.Field".
func Comments(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range decl.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					addComments(all, t, decl.Doc)
				}
			}
		}
	}
	return all, nil
}

func addComments(all map[string]string, t *ast.TypeSpec, doc *ast.CommentGroup) {
	all[t.Name.Name] = flat(doc)
	s, ok := t.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range s.Fields.List {
		for _, name := range field.Names {
			says := strings.TrimSpace(flat(field.Doc) + " " + flat(field.Comment))
			for _, verb := range []string{" is ", " are ", " says ", ": "} { // the name is the property's
				says = strings.TrimPrefix(says, name.Name+verb)
			}
			all[t.Name.Name+"."+name.Name] = says
		}
	}
}

// flat is a comment on one line.
func flat(g *ast.CommentGroup) string { return strings.Join(strings.Fields(g.Text()), " ") }
