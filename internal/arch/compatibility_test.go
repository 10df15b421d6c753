package arch

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

var release = flag.Bool("release", false, "write testdata/released.txt again, at a release")

const released = "testdata/released.txt"

// TestCompatible: what a release promised for the API and the policy still exists:
// routes, parameters, fields, values, types and defaults. More may be added, but
// nothing that a caller must send (docs/COMPATIBILITY.md).
func TestCompatible(t *testing.T) {
	now := promises(t)
	if *release {
		require.NoError(t, os.WriteFile(released, []byte(strings.Join(now, "\n")+"\n"), 0o644))
	}
	text := require.ReadFile(t, released)
	then := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(then) < 800 {
		t.Fatalf("%s has only %d lines", released, len(then))
	}
	for _, line := range broken(then, now) {
		t.Error(line)
	}
}

// TestCompatibleSees: each way to break the promise is noticed.
func TestCompatibleSees(t *testing.T) {
	then := []string{"a type integer", "request a.type string", "request a.required b"}
	for _, tt := range []struct {
		now  []string
		want int
	}{
		{then, 0},
		{append(slices.Clone(then), "c type string"), 0},
		{then[1:], 1},
		{[]string{"a type string", then[1], then[2]}, 1},
		{append(slices.Clone(then), "request a.required c"), 1},
		{append(slices.Clone(then), "reply a.required c"), 0},
		{append(slices.Clone(then), "request b.type object", "request b.required c"), 0}, // a new request
	} {
		if got := broken(then, tt.now); len(got) != tt.want {
			t.Errorf("%q: %q", tt.now, got)
		}
	}
}

// broken compares the lines of a release with the current ones.
func broken(then, now []string) (why []string) {
	for _, line := range then {
		if !slices.Contains(now, line) {
			why = append(why, "released, and no longer so: "+line)
		}
	}
	for _, line := range now {
		object, _, required := strings.Cut(line, ".required ")
		ofRelease := func(line string) bool { return strings.HasPrefix(line, object+".") }
		if strings.HasPrefix(line, "request ") && required && slices.ContainsFunc(then, ofRelease) && !slices.Contains(then, line) {
			why = append(why, "was not required by the release: "+line)
		}
	}
	return why
}

// promises are the lines of the API and of the policy. Lines about input to lineage
// begin with "request".
func promises(t *testing.T) (lines []string) {
	t.Helper()
	var policy, api map[string]any
	for file, to := range map[string]*map[string]any{"docs/policy.schema.json": &policy, "docs/openapi.json": &api} {
		require.NoError(t, json.Unmarshal([]byte(read(t, file)), to))
	}
	flatten("request policy", policy, &lines)
	flatten("api", api["paths"], &lines)
	schemas := api["components"].(map[string]any)["schemas"].(map[string]any)
	for name, schema := range schemas {
		where := "reply "
		if strings.HasPrefix(name, "New") || strings.HasSuffix(name, "Request") {
			where = "request "
		}
		flatten(where+name, schema, &lines)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// flatten writes the parts of a JSON schema that programs rely on, one a line.
func flatten(path string, value any, lines *[]string) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			switch key {
			case "description", "summary", "title", "$schema", "pattern", "examples",
				"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties": // limits may be widened
			default:
				below := path + "." + key
				if key == "properties" || key == "items" || key == "content" || key == "schema" {
					below = path // only structure
				}
				flatten(below, v[key], lines)
			}
		}
	case []any:
		for _, item := range v {
			if parameter, ok := item.(map[string]any); ok && parameter["name"] != nil {
				flatten(fmt.Sprintf("%s.%v", path, parameter["name"]), item, lines)
			} else {
				flatten(path, item, lines)
			}
		}
	default:
		*lines = append(*lines, fmt.Sprintf("%s %v", path, v))
	}
}

// TestVersion: the file VERSION names the release of the newest section in CHANGELOG.md.
func TestVersion(t *testing.T) {
	version := strings.TrimSpace(read(t, "VERSION"))
	_, changes, _ := strings.Cut(read(t, "CHANGELOG.md"), "\n## ")
	heading, _, _ := strings.Cut(changes, "\n")
	if heading != version && !strings.HasPrefix(heading, version+" ") {
		t.Errorf("VERSION is %s, the newest changes are of %q", version, heading)
	}
}
