package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// BuiltIn is the origin of a value that no file gave.
const BuiltIn = "built-in"

type Value struct {
	// Key is its path: defaults.grace; for a rule it ends with its name, for another
	// item with its index: protect.database, redact.1.
	Key string
	// Value is what the file would hold, as encoding/json represents it.
	Value any
	// Origin is FILE:LINE, or BuiltIn.
	Origin string
}

// Values returns all effective values, in the order of the format. An empty list of
// rules or expressions gives none.
func (p *Policy) Values() []Value {
	return p.values(reflect.ValueOf(p).Elem(), "", nil)
}

func (p *Policy) values(v reflect.Value, path string, all []Value) []Value {
	for _, f := range fields(v.Type()) {
		item, key := v.Field(f.index), join(path, f.key)
		_, single := item.Addr().Interface().(value)
		switch {
		case !single && item.Kind() == reflect.Struct:
			all = p.values(item, key, all)
		case item.Kind() == reflect.Slice && f.Tag.Get("one") == "":
			for i := range item.Len() {
				x, name, at := item.Index(i), strconv.Itoa(i), fmt.Sprintf("%s[%d]", key, i)
				if r, ok := x.Addr().Interface().(rule); ok {
					name, at = label(x), *r.place()
				}
				all = append(all, Value{join(key, name), document(x), p.origin(at)})
			}
		default:
			all = append(all, Value{key, document(item), p.origin(key)})
		}
	}
	return all
}

func (p *Policy) origin(path string) string {
	if line := p.lines[path]; line > 0 {
		return fmt.Sprintf("%s:%d", p.file, line)
	}
	return BuiltIn
}

// document is a value as it may be written in a file.
func document(v reflect.Value) any {
	if v.CanAddr() {
		if val, ok := v.Addr().Interface().(value); ok {
			return val.String()
		}
	}
	switch v.Kind() {
	case reflect.Slice:
		list := []any{}
		for i := range v.Len() {
			list = append(list, document(v.Index(i)))
		}
		return list
	case reflect.Pointer:
		return document(v.Elem())
	case reflect.Struct:
		m := map[string]any{}
		for _, f := range fields(v.Type()) {
			if x := v.Field(f.index); !x.IsZero() {
				m[f.key] = document(x)
			}
		}
		return m
	}
	return v.Interface()
}

// RestartNeeded names the keys that are read only at a start and in which p differs
// from the policy that the daemon was started with.
func (p *Policy) RestartNeeded(started *Policy) (keys []string) {
	before := started.values(reflect.ValueOf(&started.Daemon).Elem(), "daemon", nil)
	for i, v := range p.values(reflect.ValueOf(&p.Daemon).Elem(), "daemon", nil) { // it has no list
		if before[i].Value != v.Value {
			keys = append(keys, v.Key)
		}
	}
	if p.SelfProtect != started.SelfProtect {
		keys = append(keys, "self_protect")
	}
	slices.Sort(keys)
	return keys
}
