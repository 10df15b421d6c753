package openapi

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

var update = flag.Bool("update", false, "write docs/openapi.json")

const file = "../../docs/openapi.json"

// TestDocument: docs/openapi.json matches the types of package api, every field has a
// description, and it is valid OpenAPI.
func TestDocument(t *testing.T) {
	text, err := document("../../api")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, text) {
		t.Error("docs/openapi.json is not what package api says; run: make docs")
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRoutes: the routes match docs/API.md, which the daemon's tests compare with what
// it serves.
func TestRoutes(t *testing.T) {
	text, err := os.ReadFile("../../docs/API.md")
	if err != nil {
		t.Fatal(err)
	}
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
