package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// module is the path of the root module, and of module api a prefix.
const module = "github.com/lineage-ebpf/lineage"

// The limits. Generated code and tests are not measured.
const (
	fileLines    = 400
	funcLines    = 90
	packageFiles = 25
	packageLines = 4000 // in overLimit, rounded up to hundreds
	structFields = 20
	methodFiles  = 6 // files with methods of one type
)

// pkg is a package as go list describes it, with its name made short.
type pkg struct {
	ImportPath string
	Dir        string
	Doc        string // the first sentence
	GoFiles    []string
	Imports    []string
}

// TestSizes compares sizes over a limit with the table, in both directions: nothing
// grows, and a size that has shrunk must be lowered in the table.
func TestSizes(t *testing.T) {
	over := make(map[string]int)
	for _, p := range packages(t) {
		measure(t, p, over)
	}
	for _, key := range slices.Sorted(maps.Keys(over)) {
		switch now, was := over[key], overLimit[key]; {
		case was == 0:
			t.Errorf("%s is over the limit: %d", key, now)
		case now > was:
			t.Errorf("%s has grown from %d to %d", key, was, now)
		case now < was:
			t.Errorf("%s has shrunk from %d to %d: lower it in overLimit", key, was, now)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(overLimit)) {
		if over[key] == 0 {
			t.Errorf("%s is within the limit: remove it from overLimit", key)
		}
		if strings.Contains(key, " daemon") && !strings.HasPrefix(key, "methods in files ") {
			t.Errorf("%s: the daemon's packages keep the limits", key)
		}
	}
}

// TestImports compares the imports between our packages with the table.
func TestImports(t *testing.T) {
	seen := make(map[string]bool)
	for _, p := range packages(t) {
		seen[p.ImportPath] = true
		row := strings.Fields(mayImport[p.ImportPath])
		for _, path := range p.Imports {
			if path, ours := short(path); ours && !slices.Contains(row, path) {
				t.Errorf("%s imports %s, which its row in mayImport does not allow", p.ImportPath, path)
			}
		}
		for _, path := range row {
			if !slices.Contains(p.Imports, module+"/"+path) {
				t.Errorf("%s imports %s no longer: remove it from its row in mayImport", p.ImportPath, path)
			}
		}
	}
	for path := range mayImport {
		if !seen[path] {
			t.Errorf("there is no package %s: remove its row from mayImport", path)
		}
	}
}

// TestHTTP: only these packages of the daemon use HTTP.
func TestHTTP(t *testing.T) {
	may := []string{"daemon/daemontest", "daemon/httpapi", "daemon/stream", "daemon/system"}
	for _, p := range packages(t) {
		if strings.HasPrefix(p.ImportPath+"/", "daemon/") && slices.Contains(p.Imports, "net/http") &&
			!slices.Contains(may, p.ImportPath) {
			t.Errorf("%s imports net/http", p.ImportPath)
		}
	}
}

func short(path string) (string, bool) { return strings.CutPrefix(path, module+"/") }

func packages(t *testing.T) (all []pkg) {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,GoFiles,Imports", module+"/...")
	cmd.Dir, cmd.Env = "../..", append(cmd.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.Output()
	require.NoError(t, err)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath, _ = short(p.ImportPath)
		all = append(all, p)
	}
}

// measure adds to over the sizes that exceed a limit in the package.
func measure(t *testing.T, p pkg, over map[string]int) {
	t.Helper()
	exceeds := func(key string, n, limit int) {
		if n > limit {
			over[key] = n
		}
	}
	fset := token.NewFileSet()
	files, lines := 0, 0
	methodsIn := make(map[string]int)
	structs := make(map[string]*ast.StructType)
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		if ast.IsGenerated(f) {
			continue
		}
		n := fset.File(f.Pos()).LineCount()
		files, lines = files+1, lines+n
		exceeds("file "+p.ImportPath+"/"+name, n, fileLines)
		receivers := make(map[string]bool)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					receivers[typeName(n.Recv.List[0].Type)] = true
				}
				length := fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
				exceeds("func "+p.ImportPath+"."+n.Name.Name, length, funcLines)
			case *ast.TypeSpec:
				key := p.ImportPath + "." + n.Name.Name
				s, ok := n.Type.(*ast.StructType)
				if !ok {
					break
				}
				structs[n.Name.Name] = s
				for _, field := range s.Fields.List {
					if embedsPointer(f, field) {
						over["embedded pointer "+key+" *"+typeName(field.Type)] = 1
					}
				}
			}
			return true
		})
		for r := range receivers {
			methodsIn[r]++
		}
	}
	for name, s := range structs {
		if key := p.ImportPath + "." + name; !wideStructs[key] {
			exceeds("struct "+key, fieldsOf(s, p.ImportPath, structs), structFields)
		}
	}
	exceeds("package files "+p.ImportPath, files, packageFiles)
	if lines > packageLines {
		over["package lines "+p.ImportPath] = (lines + 99) / 100 * 100
	}
	for r, n := range methodsIn {
		exceeds("methods in files "+p.ImportPath+"."+r, n, methodFiles)
	}
}

// fieldsOf counts the fields of a struct, and in place of an embedded struct of the same package
// its fields: a struct that is too big is not made smaller by embedding its parts. One that may be
// wide counts as one field.
func fieldsOf(s *ast.StructType, path string, structs map[string]*ast.StructType) (n int) {
	for _, field := range s.Fields.List {
		switch embedded, ok := field.Type.(*ast.Ident); {
		case len(field.Names) > 0:
			n += len(field.Names)
		case ok && structs[embedded.Name] != nil && !wideStructs[path+"."+embedded.Name]:
			n += fieldsOf(structs[embedded.Name], path, structs)
		default:
			n++
		}
	}
	return n
}

// TestQuestions: no error of a question to the registry is dropped. It says that the daemon is
// stopping, so that the answer is missing. Registry.Do is for what needs none.
func TestQuestions(t *testing.T) {
	asks := []string{"Read", "ReadFor", "ReadLast", "Update", "Ask", "AskFor", "Change"}
	nodes(t, []string{"daemon"}, func(_ string, at token.Position, n ast.Node) {
		if drops(n, asks) {
			t.Errorf("%s: the error of a question to the registry is dropped", at)
		}
	})
}

// drops reports whether an assignment drops the last result of a call with one of these names, which
// gets a function.
func drops(n ast.Node, names []string) bool {
	a, ok := n.(*ast.AssignStmt)
	if !ok || len(a.Rhs) != 1 {
		return false
	}
	last, ok := a.Lhs[len(a.Lhs)-1].(*ast.Ident)
	call, isCall := a.Rhs[0].(*ast.CallExpr)
	if !ok || !isCall || last.Name != "_" || len(call.Args) == 0 {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains(names, f.Sel.Name) {
		return false
	}
	_, literal := call.Args[len(call.Args)-1].(*ast.FuncLit)
	return literal || !strings.HasPrefix(f.Sel.Name, "Read") // procfs has a Read, too
}

// embedsPointer reports whether a field is an embedded pointer to our own type: of the
// same package, or of one that the file imports.
func embedsPointer(f *ast.File, field *ast.Field) bool {
	star, ok := field.Type.(*ast.StarExpr)
	if !ok || len(field.Names) > 0 {
		return false
	}
	from, ok := star.X.(*ast.SelectorExpr)
	if !ok {
		return true
	}
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
		path, err := strconv.Unquote(i.Path.Value)
		short, ours := short(path)
		return err == nil && ours && filepath.Base(short) == from.X.(*ast.Ident).Name
	})
}

// typeName is the name of a type without star, package and parameters.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// TestGoroutines: a panic in a goroutine that nobody waits for would end the daemon. So all of them
// call Registry.Guard, except in these files, where no goroutine handles what a request or a member
// has sent.
func TestGoroutines(t *testing.T) {
	except := map[string]string{
		"daemon/access/peer.go":                  "closes a connection",
		"daemon/access/auditlog.go":              "writes records",
		"daemon/status/canary.go":                "shortens a wait",
		"daemon/status/canarystage.go":           "is another process",
		"daemon/daemontest/real.go":              "is for tests",
		"daemon/daemontest/requests.go":          "is for tests",
		"daemon/history/recorder.go":             "closes the journal",
		"daemon/system/connect.go":               "is a client",
		"daemon/system/logging.go":               "writes lines",
		"daemon/system/ratelimit.go":             "counts lines",
		"daemon/registry/conclude.go":            "wakes the enforcer",
		"daemon/guard.go":                        "waits for an exit",
		"daemon/run.go":                          "is the registry's own",
		"daemon/serve.go":                        "raises the priority",
		"tracer/procfs/bounded.go":               "hands a panic to the goroutine that waits",
		"tracer/procfs/procfstest/procfstest.go": "is for tests",

		"daemon/registry/registrytest/registrytest.go": "is for tests",
	}
	seen := make(map[string]bool)
	nodes(t, []string{"daemon", "enforcer", "lineage", "tracer"}, func(path string, at token.Position, n ast.Node) {
		if !begins(n) || calls(n, "Guard") {
			return
		}
		if seen[path] = true; except[path] == "" {
			t.Errorf("%s: a goroutine without Guard", at)
		}
	})
	for key := range except {
		if !seen[key] {
			t.Errorf("%s: each goroutine has Guard, remove the exception", key)
		}
	}
}

func begins(n ast.Node) bool {
	if _, ok := n.(*ast.GoStmt); ok {
		return true
	}
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (f.Sel.Name == "Go" || f.Sel.Name == "AfterFunc")
}

func calls(n ast.Node, method string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		f, ok := n.(*ast.SelectorExpr)
		found = found || ok && f.Sel.Name == method
		return !found
	})
	return found
}
