package arch

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// sizeTable says how many lines of code each capability may have. CONTRIBUTING.md explains it.
const sizeTable = "../../testdata/size.tsv"

var (
	sizeTree  = flag.String("size.tree", "../..", "the checkout that TestSize counts")
	sizeBase  = flag.String("size.base", "", "the table of another commit: its sums bound those of this one")
	sizePrint = flag.Bool("size.print", false, "print what there is")
)

var kinds = [...]string{"product", "tests", "tools", "fakes", "C", "scripts"}

// column is one number for each kind.
type column [len(kinds)]int

func (c *column) add(o column) {
	for i := range c {
		c[i] += o[i]
	}
}

var (
	fakeFile = regexp.MustCompile(`^(api|cmd|daemon|enforcer|tracer|tui|lineage)/.*test/[^/]*\.go$`)
	// scripts are in all languages but Go; C counts apart if it is the product's.
	scriptFile = regexp.MustCompile(`\.(sh|py|js|mjs|css|pml|s|c|h)$|^Makefile$|^\.ci/|^packaging/(pre|post)`)
)

// kindOf is the kind of a file, -1 if it does not count.
func kindOf(path string) int {
	is := func(name string) int { return slices.Index(kinds[:], name) }
	switch goFile := strings.HasSuffix(path, ".go"); {
	case strings.HasSuffix(path, "_test.go"):
		return is("tests")
	case goFile && fakeFile.MatchString(path):
		return is("fakes")
	case goFile && strings.Contains("/"+path, "/internal/"):
		return is("tools")
	case goFile:
		return is("product")
	case strings.HasPrefix(path, "bpf/") && scriptFile.MatchString(path):
		return is("C")
	case scriptFile.MatchString(path):
		return is("scripts")
	}
	return -1
}

// codeOf is the text of a file that counts. In Go nothing counts up to the imports, so that joining or
// splitting files changes no number, and nothing that another program has written.
func codeOf(path, text string) (string, error) {
	if !strings.HasSuffix(path, ".go") {
		return text, nil
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, text, parser.ImportsOnly|parser.ParseComments)
	if err != nil || ast.IsGenerated(f) {
		return "", err
	}
	end := f.Name.End()
	for _, decl := range f.Decls {
		end = decl.End()
	}
	_, code, _ := strings.Cut(text[fset.Position(end).Offset:], "\n")
	return strings.TrimLeft(code, "\n"), nil
}

// row is a capability: the most lines that it may have, and the patterns of its files.
type row struct {
	name  string
	most  column
	files []*regexp.Regexp
}

// table is testdata/size.tsv.
type table struct {
	comment string
	sum     column
	mean    column            // tenths of a byte in a line
	raises  map[string]column // what an issue may add, once
	rows    []row
}

func parseTable(text string) (t table, err error) {
	t.raises = make(map[string]column)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			t.comment += line
			continue
		}
		cells := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(cells) != len(kinds)+2 {
			return table{}, fmt.Errorf("not %d cells: %q", len(kinds)+2, line)
		}
		r := row{name: cells[0]}
		for i, cell := range cells[1 : len(kinds)+1] {
			x, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				return table{}, fmt.Errorf("%s: %w", r.name, err)
			}
			if r.most[i] = int(x); r.name == "bytes a line" {
				r.most[i] = int(math.Round(10 * x))
			}
		}
		for pattern := range strings.FieldsSeq(cells[len(kinds)+1]) {
			re, err := regexp.Compile("^(" + pattern + ")")
			if err != nil {
				return table{}, fmt.Errorf("%s: %w", r.name, err)
			}
			r.files = append(r.files, re)
		}
		switch raise, ok := strings.CutPrefix(r.name, "+ "); {
		case r.name == "sum":
			t.sum = r.most
		case r.name == "bytes a line":
			t.mean = r.most
		case ok:
			t.raises[raise] = r.most
		default:
			t.rows = append(t.rows, r)
		}
	}
	return t, nil
}

func (t table) String() string {
	var b strings.Builder
	write := func(name string, c column, show func(int) string, rest string) {
		b.WriteString(name)
		for _, n := range c {
			b.WriteString("\t" + show(n))
		}
		b.WriteString("\t" + rest + "\n")
	}
	b.WriteString(t.comment)
	write("sum", t.sum, strconv.Itoa, "")
	write("bytes a line", t.mean, tenths, "")
	for _, name := range slices.Sorted(maps.Keys(t.raises)) {
		write("+ "+name, t.raises[name], strconv.Itoa, "")
	}
	for _, r := range t.rows {
		var patterns []string
		for _, re := range r.files {
			patterns = append(patterns, strings.TrimSuffix(strings.TrimPrefix(re.String(), "^("), ")"))
		}
		write(r.name, r.most, strconv.Itoa, strings.Join(patterns, " "))
	}
	return b.String()
}

func tenths(n int) string { return strconv.FormatFloat(float64(n)/10, 'f', 1, 64) }

// count puts the files into the rows of the table and returns it with what there is in place of what
// may be, and what is wrong with the files: one without a row, a pattern that takes no file.
func (t table) count(files map[string]string) (is table, wrong []string) {
	is = table{comment: t.comment, raises: t.raises, rows: slices.Clone(t.rows)}
	for i := range is.rows {
		is.rows[i].most = column{}
	}
	taken := make(map[*regexp.Regexp]bool)
	var size column
	for _, path := range slices.Sorted(maps.Keys(files)) {
		kind := kindOf(path)
		if kind < 0 {
			continue
		}
		code, err := codeOf(path, files[path])
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		n := strings.Count(code, "\n")
		is.sum[kind] += n
		size[kind] += len(code)
		if r, re := t.of(path); re != nil {
			is.rows[r].most[kind] += n
			taken[re] = true
		} else {
			wrong = append(wrong, path+" has no row")
		}
	}
	for i, n := range is.sum {
		is.mean[i] = int(math.Round(10 * float64(size[i]) / float64(max(n, 1))))
	}
	for _, r := range t.rows {
		for _, re := range r.files {
			if !taken[re] {
				wrong = append(wrong, r.name+": no file is left for the pattern "+re.String())
			}
		}
	}
	return is, wrong
}

// of is the row of a file, and its pattern: the first that matches.
func (t table) of(path string) (int, *regexp.Regexp) {
	for i, r := range t.rows {
		for _, re := range r.files {
			if re.MatchString(path) {
				return i, re
			}
		}
	}
	return -1, nil
}

// exceeds says what there is more of than the table allows.
func (t table) exceeds(is table) (wrong []string) {
	for i, kind := range kinds {
		over := func(name string, n, most int, show func(int) string) {
			if n > most {
				wrong = append(wrong, fmt.Sprintf("%s, %s: %s, the limit is %s", name, kind, show(n), show(most)))
			}
		}
		rows := 0
		for r := range t.rows {
			over(t.rows[r].name, is.rows[r].most[i], t.rows[r].most[i], strconv.Itoa)
			rows += t.rows[r].most[i]
		}
		over("sum", is.sum[i], t.sum[i], strconv.Itoa)
		over("sum of the rows", rows, t.sum[i], strconv.Itoa)
		over("bytes a line", is.mean[i], t.mean[i], tenths)
	}
	return wrong
}

// rises says where the head of the table allows more than that of the base, and no new line in it says
// which issue allows it. A mean has no such line.
func (t table) rises(base table) (wrong []string) {
	allowed := base.sum
	for name, c := range t.raises {
		if _, old := base.raises[name]; !old {
			allowed.add(c)
		}
	}
	for i, kind := range kinds {
		if t.sum[i] > allowed[i] {
			wrong = append(wrong, fmt.Sprintf("sum, %s: %d, the base allows %d", kind, t.sum[i], allowed[i]))
		}
		if t.mean[i] > base.mean[i] {
			wrong = append(wrong, fmt.Sprintf("bytes a line, %s: %s, the base has %s", kind, tenths(t.mean[i]), tenths(base.mean[i])))
		}
	}
	return wrong
}

// TestSize: no capability has more lines than testdata/size.tsv allows, every file has a row, and
// neither a sum nor the bytes of a line rise. With -update the table allows what there is, unless a sum
// would rise. With -size.base it must allow just that, and in sum what the base allows.
func TestSize(t *testing.T) {
	text, err := os.ReadFile(sizeTable)
	require.NoError(t, err)
	may, err := parseTable(string(text))
	require.NoError(t, err)
	is, wrong := may.count(tree(t, *sizeTree))
	if *sizePrint {
		require.NoError(t, is.print(os.Stdout))
	}
	if *sizeTree != "../.." { // another commit, which this table does not bind
		return
	}
	if *update {
		is.sum, is.mean = least(may.sum, is.sum), least(may.mean, is.mean)
		may = is
		require.NoError(t, os.WriteFile(sizeTable, []byte(may.String()), 0o644))
		is, _ = may.count(tree(t, *sizeTree))
	}
	wrong = append(wrong, may.exceeds(is)...)
	if *sizeBase != "" {
		text, err := os.ReadFile(*sizeBase)
		require.NoError(t, err)
		base, err := parseTable(string(text))
		require.NoError(t, err)
		wrong = append(wrong, may.rises(base)...)
		if may.sum != is.sum {
			wrong = append(wrong, fmt.Sprintf("the table allows %v, and there is %v: make size-update", may.sum, is.sum))
		}
	}
	for _, w := range wrong {
		t.Error(w)
	}
}

func least(a, b column) column {
	for i := range a {
		a[i] = min(a[i], b[i])
	}
	return a
}

// tree is the text of every file that counts below a directory.
func tree(t *testing.T, top string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	require.NoError(t, fs.WalkDir(os.DirFS(top), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "bin" || path != "." && path != ".ci" && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || kindOf(path) < 0:
			return nil
		}
		text, err := os.ReadFile(filepath.Join(top, path))
		files[path] = string(text)
		return err
	}))
	return files
}

// print writes the lines of each row, and the sums.
func (t table) print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\t%s\t\n", strings.Join(kinds[:], "\t"), "")
	line := func(name string, c column, show func(int) string) {
		for _, n := range c {
			fmt.Fprintf(w, "%s\t", show(n))
		}
		fmt.Fprintf(w, "  %s\n", name)
	}
	for _, r := range t.rows {
		line(r.name, r.most, strconv.Itoa)
	}
	line("bytes a line", t.mean, tenths)
	line("sum", t.sum, strconv.Itoa)
	return w.Flush()
}

// TestSizeFails: what the law forbids is an error, and moving code between files is not.
func TestSizeFails(t *testing.T) {
	const text = "# c\n" +
		"sum\t4\t1\t0\t0\t0\t0\t\n" +
		"bytes a line\t9.0\t9.0\t0.0\t0.0\t0.0\t0.0\t\n" +
		"a\t3\t1\t0\t0\t0\t0\ta/ a_test\n" +
		"b\t1\t0\t0\t0\t0\t0\tb/|a/\n"
	files := func(more ...string) map[string]string {
		all := map[string]string{
			"a/x.go":      "// Package a is.\npackage a\n\nimport \"io\"\n\nvar a, b int\nvar c int\n",
			"a/y.go":      "package a\n\nvar d int\n",
			"b/z.go":      "package b\n\nvar e int\n",
			"a_test.go":   "package a\n\nvar f int\n",
			"b/gen.go":    "// Code generated by x. DO NOT EDIT.\n\npackage b\n\nvar g int\n",
			"README.md":   "text\n",
			"b/README.md": "text\n",
		}
		for i := 0; i < len(more); i += 2 {
			if all[more[i]] = more[i+1]; more[i+1] == "" {
				delete(all, more[i])
			}
		}
		return all
	}
	may, err := parseTable(text)
	require.NoError(t, err)
	require.Equal(t, may.String(), text)
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"as it was", files(), ""},
		{"files joined", files("a/x.go", "package a\nvar a, b int\nvar c int\nvar d int\n", "a/y.go", ""), ""},
		{"a file without a row", files("c/x.go", "package c\nvar i int\n"), "c/x.go has no row"},
		{"a row over its budget", files("b/z.go", "package b\nvar e int\nvar h int\n", "a/y.go", ""), "b, product: 2, the limit is 1"},
		{"a sum", files("b/z.go", "package b\nvar e int\nvar h int\n"), "sum, product: 5, the limit is 4"},
		{"longer lines", files("a/x.go", "package a\nvar a, b int; var cc, dd int\nvar c int\n"), "bytes a line, product: 14.8, the limit is 9.0"},
		{"a pattern without a file", files("a_test.go", ""), "a: no file is left for the pattern ^(a_test)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			may := may
			if test.name != "longer lines" {
				may.mean = column{150, 150}
			}
			is, wrong := may.count(test.files)
			wrong = append(wrong, may.exceeds(is)...)
			switch {
			case test.want == "" && len(wrong) > 0:
				t.Errorf("refused: %q", wrong)
			case test.want != "" && !slices.Contains(wrong, test.want):
				t.Errorf("%q is not among %q", test.want, wrong)
			}
		})
	}

	more, err := parseTable(strings.Replace(text, "sum\t4", "sum\t5", 1))
	require.NoError(t, err)
	require.Equal(t, strings.Join(more.rises(may), "\n"), "sum, product: 5, the base allows 4")
	longer, err := parseTable(strings.Replace(text, "9.0", "9.1", 1))
	require.NoError(t, err)
	require.Equal(t, strings.Join(longer.rises(may), "\n"), "bytes a line, product: 9.1, the base has 9.0")
	raised, err := parseTable(strings.Replace(text, "sum\t4", "+ doors\t1\t0\t0\t0\t0\t0\t\nsum\t5", 1))
	require.NoError(t, err)
	require.Equal(t, strings.Join(raised.rises(may), "\n"), "")
	again := table{sum: column{6, 1}, raises: raised.raises}
	require.Equal(t, strings.Join(again.rises(raised), "\n"), "sum, product: 6, the base allows 5")
}
