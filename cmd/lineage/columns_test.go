package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// TestColumns: every column that --columns takes is one of the table, and no other.
func TestColumns(t *testing.T) {
	for list, known := range map[string][]string{
		"ls": text.SessionColumns, "history": text.HistoryColumns, "ls --left": text.OrphanColumns, "ls --outside": text.HostOrphanColumns,
	} {
		header := func(args ...string) []string {
			_, out, _ := newWorld(t, newFake()).run(append(strings.Fields(list), args...)...)
			first, _, _ := strings.Cut(out, "\n")
			return strings.Fields(strings.ToLower(first))
		}
		if got := header("-o", "wide"); !slices.Equal(got, known) {
			t.Errorf("%s -o wide has %q, --columns takes %q", list, got, known)
		}
		backwards := slices.Clone(known)
		slices.Reverse(backwards)
		if got := header("--columns", strings.ToUpper(strings.Join(backwards, ","))); !slices.Equal(got, backwards) {
			t.Errorf("%s has %q, want %q", list, got, backwards)
		}
	}
}
