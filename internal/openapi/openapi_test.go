package openapi

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/lineage-ebpf/lineage/internal/require"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

const file = "../../docs/openapi.json"

// TestDocument: docs/openapi.json matches the types of package api, every field has a
// description, and it is valid OpenAPI.
func TestDocument(t *testing.T) {
	text, err := document("../../api")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(file, text, 0o644))
	}
	committed := require.ReadFile(t, file)
	if !bytes.Equal(committed, text) {
		t.Error("docs/openapi.json is not what package api says; run: make docs")
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
}

// TestRoutes: the routes match docs/API.md, which the daemon's tests compare with what
// it serves.
func TestRoutes(t *testing.T) {
	text := require.ReadFile(t, "../../docs/API.md")
	var documented, ours []string
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:GET|POST) [^`]+)` \\|").FindAllSubmatch(text, -1) {
		documented = append(documented, string(m[1]))
	}
	for _, r := range routes {
		ours = append(ours, r.pattern)
	}
	slices.Sort(documented)
	slices.Sort(ours)
	if !slices.Equal(documented, ours) {
		t.Errorf("documented are\n%q\nwe have\n%q", documented, ours)
	}
}
