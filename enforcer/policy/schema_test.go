package policy

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestSchema writes the JSON schema of a policy file, made from the same types that read
// it. A file that the schema refuses is refused; the reverse is not true, because a schema
// cannot compare sizes and durations.
func TestSchema(t *testing.T) {
	root := schemaOf(reflect.ValueOf(Default()).Elem())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "lineage policy"
	b, err := json.MarshalIndent(root, "", "  ")
	require.NoError(t, err)
	golden(t, "../../docs/policy.schema.json", append(b, '\n'))
}

// schemaOf is the schema of a struct; v holds the built-in values.
func schemaOf(v reflect.Value) map[string]any {
	properties := map[string]any{}
	var need []string
	for _, f := range fields(v.Type()) {
		s := schemaOfField(v.Field(f.index), f.Tag)
		if doc := f.Tag.Get("doc"); doc != "" {
			s["description"] = doc
		}
		properties[f.key] = s
		if f.needed() {
			need = append(need, f.key)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	switch {
	case need != nil:
		s["required"] = need
	case v.Type() == reflect.TypeFor[Match](), v.Type() == reflect.TypeFor[Rooms]():
		s["minProperties"] = 1
	default:
		s["type"] = []string{"object", "null"}
	}
	return s
}

func schemaOfField(v reflect.Value, tag reflect.StructTag) map[string]any {
	_, single := reflect.New(v.Type()).Interface().(value)
	switch {
	case v.Type() == reflect.TypeFor[*Match]():
		// It refers to itself: one level is described.
		return map[string]any{"type": "object", "minProperties": 1}
	case v.Kind() == reflect.Struct && !single:
		return schemaOf(v)
	case v.Kind() == reflect.Slice:
		return schemaOfList(v, tag)
	}
	s := schemaOfScalar(v.Type(), tag)
	if tag.Get("need") == "" && (tag.Get("min") != "1" || !v.IsZero()) {
		s["default"] = document(v)
	}
	return s
}

func schemaOfList(v reflect.Value, tag reflect.StructTag) map[string]any {
	list := map[string]any{"type": []string{"array", "null"}, "maxItems": maxItems}
	elem := v.Type().Elem()
	items := schemaOfScalar(elem, tag)
	if _, ok := reflect.New(elem).Interface().(rule); ok {
		items = schemaOf(reflect.New(elem).Elem())
	}
	list["items"] = items
	if tag.Get("list") == "any" {
		list["type"], list["minItems"] = "array", 1
		return map[string]any{"oneOf": []any{items, list}}
	}
	return list
}

func schemaOfScalar(t reflect.Type, tag reflect.StructTag) map[string]any {
	units := func(pattern string) map[string]any { // only 0 needs no unit
		return map[string]any{"type": []string{"string", "integer"}, "pattern": pattern, "maximum": 0, "minimum": 0}
	}
	switch t {
	case reflect.TypeFor[Duration]():
		return units(`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`)
	case reflect.TypeFor[Size]():
		return units(`^(0|[0-9]+([KMGTP]i)?B)$`)
	case reflect.TypeFor[CPUs]():
		return map[string]any{"type": "number", "minimum": 0}
	case reflect.TypeFor[Pattern]():
		return map[string]any{"type": "string", "minLength": 1, "maxLength": 1000, "format": "regex"}
	case reflect.TypeFor[Glob]():
		return map[string]any{"type": "string", "pattern": "^/", "maxLength": 4096}
	case reflect.TypeFor[NameGlob]():
		return map[string]any{"type": "string", "minLength": 1, "maxLength": 256}
	case reflect.TypeFor[PairGlob]():
		return map[string]any{"type": "string", "pattern": "^[^=]+=", "maxLength": 4096}
	case reflect.TypeFor[Until]():
		return map[string]any{"type": "string", "pattern": `^[0-9]{4}-[0-9]{2}-[0-9]{2}(T.+)?$`}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		s := map[string]any{"type": "integer", "minimum": 0}
		for key, word := range map[string]string{"minimum": "min", "maximum": "max"} {
			if n, err := strconv.Atoi(tag.Get(word)); err == nil {
				s[key] = n
			}
		}
		return s
	}
	if one := tag.Get("one"); one != "" {
		words := []any{}
		for _, w := range strings.Split(one, "|") {
			words = append(words, w)
			if n, err := strconv.Atoi(w); err == nil {
				words = append(words, n)
			}
		}
		return map[string]any{"enum": words}
	}
	s := map[string]any{"type": "string"}
	if form, ok := forms[tag.Get("form")]; ok {
		s["pattern"] = form.re().String()
	}
	if tag.Get("form") == "user" {
		s["type"] = []string{"string", "integer"}
	}
	return s
}
