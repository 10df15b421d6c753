package ocsf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

var update = flag.Bool("update", false, "write schema.json again, from the definitions in OCSF_SCHEMA")

// The parts of OCSF that are in the schema: classes, profiles and objects. Attributes of
// another profile or object, deprecated ones, and those of a data type with an
// expression are not in it, so that no record can use them.
var (
	ourClasses  = []string{"base_event", "detection_finding", "process_activity", "process_remediation_activity"}
	ourProfiles = []string{"container", "host"}
	ourObjects  = []string{
		"actor", "analytic", "container", "device", "evidences", "file", "finding_info", "key_value_object", "metadata", "object",
		"observable", "os", "process", "process_entity", "product", "remediation", "user",
	}
)

// ourTypes are the types that are not strings.
var ourTypes = node{
	"boolean_t": node{"type": "boolean"}, "float_t": node{"type": "number"}, "json_t": node{}, "object": node{"type": "object"},
	"integer_t": node{"type": "integer"}, "long_t": node{"type": "integer"}, "port_t": node{"type": "integer", "minimum": 0, "maximum": 65535},
	// In milliseconds, and of this millennium.
	"timestamp_t": node{"type": "integer", "minimum": 1_000_000_000_000, "maximum": 10_000_000_000_000},
}

// node is a part of a JSON Schema.
type node = map[string]any

// TestSchema compares schema.json with OCSF's own definitions: OCSF_SCHEMA names a folder
// with them, as at https://github.com/ocsf/ocsf-schema.
func TestSchema(t *testing.T) {
	dir := os.Getenv("OCSF_SCHEMA")
	if dir == "" {
		t.Skip("OCSF_SCHEMA names no folder with the schema")
	}
	want := []byte(lines(t, newSchema(t, os.DirFS(dir)).compile(), "") + "\n")
	if *update {
		require.NoError(t, os.WriteFile("schema.json", want, 0o644))
		return
	}
	if !bytes.Equal(text, want) {
		t.Error("schema.json is not what OCSF says: go test ./internal/ocsf -run TestSchema -update, and look at the difference")
	}
}

func lines(t *testing.T, value any, indent string) string {
	short, err := json.Marshal(value)
	require.NoError(t, err)
	if len(short) < 140 {
		return string(short)
	}
	var parts []string
	if o, ok := value.(node); ok {
		for _, key := range slices.Sorted(maps.Keys(o)) {
			parts = append(parts, fmt.Sprintf("%q: %s", key, lines(t, o[key], indent+"\t")))
		}
	} else {
		for _, item := range value.([]any) {
			parts = append(parts, lines(t, item, indent+"\t"))
		}
	}
	return string(short[0]) + "\n\t" + indent + strings.Join(parts, ",\n\t"+indent) + "\n" + indent + string(short[len(short)-1])
}

// attribute is an attribute of a class or of an object.
type attribute struct {
	kind     string // the data type, or the name of an object
	array    bool
	required bool
	profile  string            // profile that the attribute belongs to; empty: none
	enum     map[string]string // captions by value
	sibling  string            // the attribute that has the caption
}

// schema has the schema's own files that are needed.
type schema struct {
	t          *testing.T
	dir        fs.FS
	dictionary struct {
		Attributes map[string]definition
		Types      struct {
			Attributes map[string]struct{ Regex string }
		}
	}
	events, objects map[string]*described
}

// described is an event class or an object.
type described struct {
	UID         int64
	Caption     string
	Category    string
	Name        string
	Extends     string
	Attributes  map[string]json.RawMessage
	Constraints *struct { // replaces those of what it extends
		AtLeastOne []string `json:"at_least_one"`
		JustOne    []string `json:"just_one"`
	}
}

// definition is an attribute in the dictionary, in a class or in an object.
type definition struct {
	Type        string
	IsArray     bool `json:"is_array"`
	Requirement string
	Profile     json.RawMessage // null removes the attribute from its profile
	Sibling     string
	Enum        map[string]struct{ Caption string }
	Deprecated  json.RawMessage `json:"@deprecated"`
}

func newSchema(t *testing.T, dir fs.FS) *schema {
	s := &schema{t: t, dir: dir, events: make(map[string]*described), objects: make(map[string]*described)}
	s.read("dictionary.json", &s.dictionary)
	err := fs.WalkDir(dir, ".", func(path string, e fs.DirEntry, err error) error {
		into := s.events
		switch top, _, _ := strings.Cut(path, "/"); {
		case err != nil || e.IsDir() || filepath.Ext(path) != ".json":
			return err
		case top == "objects":
			into = s.objects
		case top != "events":
			return nil
		}
		var d described
		s.read(path, &d)
		into[d.Name] = &d
		return nil
	})
	require.NoError(t, err)
	return s
}

func (s *schema) read(path string, into any) {
	s.t.Helper()
	b, err := fs.ReadFile(s.dir, path)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
}

// attributes are all attributes of a class or an object: inherited ones, those of
// included profiles, and its own.
func (s *schema) attributes(all map[string]*described, name string) map[string]attribute {
	d := all[name]
	if d == nil {
		s.t.Fatalf("the schema lacks %s", name)
	}
	out := make(map[string]attribute)
	if d.Extends != "" {
		out = s.attributes(all, d.Extends)
	}
	var includes []string
	if raw, ok := d.Attributes["$include"]; ok {
		require.NoError(s.t, json.Unmarshal(raw, &includes))
	}
	for _, path := range includes {
		var p described
		s.read(path, &p)
		for key, raw := range p.Attributes {
			s.add(out, key, raw, p.Name)
		}
	}
	for key, raw := range d.Attributes {
		if key != "$include" {
			s.add(out, key, raw, "")
		}
	}
	return out
}

// add merges a definition over what is known about the attribute.
func (s *schema) add(to map[string]attribute, key string, raw json.RawMessage, profile string) {
	var own definition
	if err := json.Unmarshal(raw, &own); err != nil {
		s.t.Fatalf("%s: %v", key, err)
	}
	a, seen := to[key]
	general := s.dictionary.Attributes[key]
	if !seen {
		a = attribute{kind: general.Type, array: general.IsArray, sibling: general.Sibling, profile: profile}
		a.enum = captions(nil, general)
	}
	if string(own.Profile) == "null" {
		a.profile = ""
	}
	a.kind, a.sibling = cmp.Or(own.Type, a.kind), cmp.Or(own.Sibling, a.sibling)
	if own.Requirement != "" {
		a.required = own.Requirement == "required"
	}
	a.enum = captions(a.enum, own)
	if own.Deprecated != nil || general.Deprecated != nil {
		a.kind = "deprecated"
	}
	to[key] = a
}

func captions(all map[string]string, d definition) map[string]string {
	if len(all)+len(d.Enum) == 0 {
		return nil
	}
	out := maps.Clone(all)
	if out == nil {
		out = make(map[string]string)
	}
	for value, e := range d.Enum {
		out[value] = e.Caption
	}
	return out
}

func (s *schema) compile() node {
	defs := maps.Clone(ourTypes)
	var uids, each []any
	for _, name := range ourClasses {
		uid, class := s.class(name, defs)
		uids = append(uids, uid)
		each = append(each, node{"if": is("class_uid", uid), "then": class})
	}
	// Without their profile attributes of objects are nowhere, but in values of any form.
	free := node{"unmapped": true, "xattributes": true, "data": true}
	without := make(map[string]node)
	for _, p := range ourProfiles {
		without[p] = maps.Clone(free)
	}
	for _, name := range ourObjects {
		if name == "object" {
			continue
		}
		all := s.ours(s.attributes(s.objects, name))
		for key, a := range all {
			if a.profile != "" {
				without[a.profile][key] = false
			}
		}
		object := s.structure(all, defs)
		defs[name] = object
		if one := s.atLeastOne(name); one != nil {
			var either []any
			for _, key := range one {
				either = append(either, node{"required": []any{key}})
			}
			object["anyOf"] = either
		}
	}
	for _, p := range ourProfiles {
		if name := "without_" + p; len(without[p]) > len(free) {
			defs[name] = node{"properties": without[p], "additionalProperties": ref(name), "items": ref(name)}
			each = append(each, node{"if": has(p), "else": ref(name)})
		}
	}
	metadata := defs["metadata"].(node)["properties"].(node)
	metadata["version"] = node{"const": Version}
	metadata["profiles"] = node{"type": "array", "minItems": 1, "items": node{"enum": ourProfiles}}
	return node{
		"$comment": "Generated from the OCSF schema by TestSchema.", "$schema": "https://json-schema.org/draft/2020-12/schema",
		"required": []any{"class_uid"}, "properties": node{"class_uid": node{"enum": uids}}, "allOf": each, "$defs": defs,
	}
}

func ref(name string) node { return node{"$ref": "#/$defs/" + name} }

func is(key string, value any) node {
	return node{"properties": node{key: node{"const": value}}, "required": []any{key}}
}

func has(profile string) node {
	return node{"properties": node{"metadata": node{"properties": node{"profiles": node{"contains": node{"const": profile}}}, "required": []any{"profiles"}}}}
}

// class is a class: the numbers and captions that classify an event of it agree.
func (s *schema) class(name string, defs node) (int64, node) {
	uid, categoryUID, category := s.place(name)
	all := s.ours(s.attributes(s.events, name))
	class := s.structure(all, defs)
	caption := s.events[name].Caption
	properties, rules := class["properties"].(node), class["allOf"].([]any)
	for key, value := range (node{"category_uid": categoryUID, "category_name": category, "class_name": caption}) {
		properties[key] = node{"const": value}
	}
	for n, activity := range s.numbers(all["activity_id"].enum) {
		agrees := node{"type_uid": node{"const": uid*100 + n}, "type_name": node{"const": caption + ": " + activity}}
		rules = append(rules, node{"if": is("activity_id", n), "then": node{"properties": agrees}})
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if p := all[key].profile; p != "" {
			rules = append(rules, node{"if": has(p), "else": node{"properties": node{key: false}}})
		}
	}
	class["allOf"] = rules
	return uid, class
}

// numbers are the values of an enumeration in order, and their captions.
func (s *schema) numbers(enum map[string]string) iter.Seq2[int64, string] {
	return func(yield func(int64, string) bool) {
		order := func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }
		for _, value := range slices.SortedFunc(maps.Keys(enum), order) {
			n, err := strconv.ParseInt(value, 10, 64)
			require.NoError(s.t, err)
			if !yield(n, enum[value]) {
				return
			}
		}
	}
}

func (s *schema) ours(all map[string]attribute) map[string]attribute {
	maps.DeleteFunc(all, func(key string, a attribute) bool {
		simple := strings.HasSuffix(a.kind, "_t") && s.dictionary.Types.Attributes[a.kind].Regex == ""
		if !simple && !slices.Contains(ourObjects, a.kind) || a.profile != "" && !slices.Contains(ourProfiles, a.profile) {
			return true
		}
		if a.required && a.profile != "" {
			s.t.Fatalf("%s is required, but only with profile %s", key, a.profile)
		}
		return false
	})
	return all
}

// structure is an object with these attributes. A number of an enumeration must match the
// caption beside it, if any; 99 must have one.
func (s *schema) structure(all map[string]attribute, defs node) node {
	properties, required, rules := make(node), []any{}, []any{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		a := all[key]
		if strings.HasSuffix(a.kind, "_t") && defs[a.kind] == nil {
			defs[a.kind] = node{"type": "string"}
		}
		value := ref(a.kind)
		// Those of the class are compared as a whole.
		if a.enum != nil && a.kind == "integer_t" && key != "class_uid" && key != "category_uid" {
			var known []any
			for n, caption := range s.numbers(a.enum) {
				known = append(known, n)
				then := node{"properties": node{a.sibling: node{"const": caption}}}
				if n == 99 {
					then = node{"properties": node{a.sibling: node{"minLength": 1}}, "required": []any{a.sibling}}
				}
				rules = append(rules, node{"if": is(key, n), "then": then})
			}
			value["enum"] = known
		}
		if a.array {
			value = node{"type": "array", "minItems": 1, "items": value}
		}
		properties[key] = value
		if a.required {
			required = append(required, key)
		}
	}
	o := node{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	if len(rules) > 0 {
		o["allOf"] = rules
	}
	return o
}

// place is a class's number, and its category.
func (s *schema) place(name string) (uid, categoryUID int64, category string) {
	d := s.events[name]
	uid = d.UID
	for d.Category == "" {
		d = s.events[d.Extends]
	}
	var all struct {
		Attributes map[string]struct {
			UID     int64
			Caption string
		}
	}
	s.read("categories.json", &all)
	c, ok := all.Attributes[d.Category]
	if !ok { // of the base event
		return uid, 0, "Uncategorized"
	}
	return c.UID*1000 + uid, c.UID, c.Caption
}

// atLeastOne is the constraint of an object, its own or inherited.
func (s *schema) atLeastOne(name string) []string {
	for d := s.objects[name]; d != nil; d = s.objects[d.Extends] {
		if c := d.Constraints; c != nil {
			if c.JustOne != nil {
				s.t.Fatalf("%s has a constraint that the table cannot hold", name)
			}
			return c.AtLeastOne
		}
	}
	return nil
}
