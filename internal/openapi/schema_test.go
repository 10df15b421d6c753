package openapi

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
)

// schemas has the schemas of the requested types, and of the types in them.
type schemas struct {
	comments map[string]string // by "Type" and "Type.Field"
	all      object
	silent   []string // fields without a comment
}

func reference(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// of is the schema of a type. The schema of a struct in package api is added to all,
// and referenced.
func (s *schemas) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[api.U64]():
		return object{"type": "string", "pattern": "^[0-9]+$"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Interface:
		return object{} // any value
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Struct:
		if s.all[t.Name()] == nil {
			s.all[t.Name()] = object{} // it may contain itself
			s.all[t.Name()] = s.structure(t)
		}
		return reference(t.Name())
	}
	panic(fmt.Sprintf("no schema for %v", t))
}

// structure has the fields of a struct and of those that it embeds, as in JSON.
func (s *schemas) structure(t reflect.Type) object {
	properties, required := make(object), []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		owner := t
		for _, i := range f.Index[:len(f.Index)-1] {
			owner = owner.Field(i).Type
		}
		key := owner.Name() + "." + f.Name
		says := s.comments[key]
		if says == "" && !slices.Contains(s.silent, key) {
			s.silent = append(s.silent, key)
		}
		property := maps.Clone(s.of(f.Type))
		if property["$ref"] != nil { // what is next to a reference is ignored
			property = object{"allOf": []any{property}}
		}
		property["description"] = says
		properties[name] = property
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
	}
	schema := object{"type": "object", "properties": properties, "description": s.comments[t.Name()]}
	if len(required) > 0 {
		slices.Sort(required)
		schema["required"] = required
	}
	return schema
}
