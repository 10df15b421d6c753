// Package page writes tables into documents, between the lines
// "<!-- begin NAME -->" and "<!-- end NAME -->". It also reads the comments of the code, which
// tables are made of.
package page

import (
	"fmt"
	"os"
	"strings"
)

// Write replaces the text between the marks of that name in a file.
func Write(path, name, text string) error { return Keep(path, name, text, true) }

// Keep writes the text if update is set, and fails if the file has another one.
func Keep(path, name, text string, update bool) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := fmt.Sprintf("<!-- begin %s -->\n", name), fmt.Sprintf("<!-- end %s -->\n", name)
	head, rest, found := strings.Cut(string(old), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no place for %q", path, name)
	}
	switch after := head + begin + "\n" + text + "\n" + end + tail; {
	case after == string(old):
		return nil
	case update:
		return os.WriteFile(path, []byte(after), 0o644)
	}
	return fmt.Errorf("%q of %s is out of date: run make docs", name, path)
}

// A Table is a Markdown table.
type Table struct{ b strings.Builder }

// NewTable begins a table. A heading that ends with ":" is for a column of numbers.
func NewTable(heads ...string) *Table {
	t := &Table{}
	line := make([]string, len(heads))
	for i, h := range heads {
		line[i] = "---"
		if name, number := strings.CutSuffix(h, ":"); number {
			heads[i], line[i] = name, "---:"
		}
	}
	t.Row(heads...)
	t.Row(line...)
	return t
}

// Row adds a line of cells.
func (t *Table) Row(cells ...string) {
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	fmt.Fprintf(&t.b, "| %s |\n", strings.Join(cells, " | "))
}

// String is the table as written in the document.
func (t *Table) String() string { return t.b.String() }
