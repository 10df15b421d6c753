//go:build linux

package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// Documented is docs/openapi.json.
var Documented = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromFile(filepath.Join(top, "docs", "openapi.json"))
})

// Fields compares a value with its schema, field by field, and calls seen with
// "Schema.field" for each. A field that the schema does not have is an error.
func Fields(schema *openapi3.SchemaRef, value any, seen func(string)) (errs []error) {
	if schema == nil { // a list in a value of any type
		return nil
	}
	if of := slices.Concat(schema.Value.AllOf, schema.Value.AnyOf); len(of) > 0 {
		schema = of[0]
		object, _ := value.(map[string]any)
		for _, s := range of[1:] { // the document says which it is
			if strings.EqualFold(fmt.Sprint(object["kind"]), SchemaName(s)) {
				schema = s
			}
		}
	}
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			errs = append(errs, Fields(schema.Value.Items, item, seen)...)
		}
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(value)) {
			property, documented := schema.Value.Properties[field]
			switch {
			case documented:
				seen(SchemaName(schema) + "." + field)
				errs = append(errs, Fields(property, value[field], seen)...)
			case schema.Value.AdditionalProperties.Schema == nil && len(schema.Value.Properties) > 0:
				errs = append(errs, fmt.Errorf("%s has no field %s", SchemaName(schema), field))
			}
		}
	}
	return errs
}

// SchemaName is the name of a referenced schema.
func SchemaName(s *openapi3.SchemaRef) string { return s.Ref[strings.LastIndex(s.Ref, "/")+1:] }

// read reads an answer into a document, and fails the test if it does not match
// docs/openapi.json for that type. It does not check documents that only commands make:
// their types are not in package api.
func read[T any](i *Instance, what string, text []byte) *T {
	i.T.Helper()
	doc := new(T)
	if err := json.Unmarshal(text, doc); err != nil {
		i.T.Fatalf("%s: %v\n%s", what, err, text)
	}
	spec, err := Documented()
	require.NoError(i.T, err)
	name := reflect.TypeFor[T]().Name()
	if spec.Components.Schemas[name] == nil {
		if strings.HasSuffix(reflect.TypeFor[T]().PkgPath(), "/api") {
			i.T.Errorf("%s: docs/openapi.json has no %s", what, name)
		}
		return doc
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		i.T.Fatalf("%s: %v\n%s", what, err, text)
	}
	schema := &openapi3.SchemaRef{Ref: "#/components/schemas/" + name, Value: spec.Components.Schemas[name].Value}
	errs := Fields(schema, value, func(string) {})
	if err := schema.Value.VisitJSON(value); err != nil {
		errs = append(errs, err)
	}
	for _, err := range errs {
		i.T.Errorf("%s: %v\n%s", what, err, text)
	}
	return doc
}

// Report is the receipt that run or init wrote into a file.
func Report(t *testing.T, file string) (r api.Report) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	require.NoError(t, err)
	return r
}

// get fetches a document from the daemon.
func get[T any](i *Instance, path string) (*T, error) {
	i.T.Helper()
	client := i.Client()
	client.Timeout = 2 * Patience
	answer, err := client.Get("http://lineage" + path)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("GET %s: %s: %s", path, answer.Status, text)
	}
	return read[T](i, "GET "+path, text), nil
}

// must is get of a document that there is.
func must[T any](i *Instance, path string) *T {
	i.T.Helper()
	doc, err := get[T](i, path)
	require.NoError(i.T, err)
	return doc
}

func (i *Instance) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", i.Socket)
}

// Client speaks HTTP with the instance's daemon.
func (i *Instance) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: i.dial, DisableKeepAlives: true}}
}
