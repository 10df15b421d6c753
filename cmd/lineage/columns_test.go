package main

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/lineage-ebpf/lineage/api"
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
	if _, out, _ := newWorld(t, newFake()).run("ls", "--no-headers", "--columns", "name,id"); !strings.HasPrefix(out, "build ") || strings.Contains(out, "NAME") {
		t.Errorf("%q", out)
	}
}

// TestYAML: a document is the same in YAML and in JSON, and its texts stay texts for
// readers of YAML 1.1 too.
func TestYAML(t *testing.T) {
	for _, name := range []string{"no", "1e3", "0x1f", "2026-01-01", "null", "a: b", "- a", "#", " a ", "a\nb", "\u202eb", "\U000e0001", "\u009bm", "\x1b[2J", "\"'", ""} {
		f := newFake()
		f.Has.Sessions = []api.Session{{ID: "k3x9q2", State: "active", Name: name, UID: 1000, CPUSeconds: 0.25}}
		_, out, stderr := newWorld(t, f).run("ls", "-o", "yaml")
		var doc struct {
			Schema, Kind string
			Items        []struct {
				ID, Name string
				CPU      float64 `yaml:"cpu_seconds"`
				UID      int
			}
		}
		if err := yaml.Unmarshal([]byte(out), &doc); err != nil {
			t.Fatalf("%q: %v\n%s", name, err, out)
		}
		if len(doc.Items) != 1 {
			t.Fatalf("%q: %s%s", name, out, stderr)
		}
		if got := doc.Items[0]; doc.Kind != "sessions" || got.ID != "k3x9q2" || got.Name != name || got.CPU != 0.25 || got.UID != 1000 {
			t.Errorf("%q: %+v\n%s", name, doc, out)
		}
		if !strings.HasPrefix(out, "schema: lineage/1\nkind: sessions\nitems:\n") || unprintable(out) != "" {
			t.Errorf("%q: %s", name, out)
		}
		if name == "no" && !strings.Contains(out, `name: "no"`) {
			t.Errorf("%s", out)
		}
	}
}
