package ocsf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/format"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write table.go again, from the schema in OCSF_SCHEMA")

// The parts of the schema that are in the table: classes, profiles and objects.
// Attributes of another profile or object, deprecated ones, and those of a data type with
// an expression are not in the table, so that no record can use them.
var (
	ourClasses  = []string{"base_event", "detection_finding", "process_activity", "process_remediation_activity"}
	ourProfiles = []string{"container", "host"}
	ourObjects  = []string{
		"actor", "analytic", "container", "device", "evidences", "file", "finding_info", "key_value_object", "metadata", "object",
		"observable", "os", "process", "process_entity", "product", "remediation", "user",
	}
)

// TestTable compares table.go with the schema's own definitions: OCSF_SCHEMA names a
// folder with them, as at https://github.com/ocsf/ocsf-schema.
func TestTable(t *testing.T) {
	dir := os.Getenv("OCSF_SCHEMA")
	if dir == "" {
		t.Skip("OCSF_SCHEMA names no folder with the schema")
	}
	want := newSchema(t, os.DirFS(dir)).table()
	if *update {
		if err := os.WriteFile("table.go", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile("table.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("table.go is not what the schema says: go test ./internal/ocsf -run TestTable -update, and look at the difference")
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
		if err := json.Unmarshal(raw, &includes); err != nil {
			s.t.Fatal(err)
		}
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

// table generates table.go.
func (s *schema) table() []byte {
	var b bytes.Buffer
	b.WriteString("// Code generated from the OCSF schema by TestTable. DO NOT EDIT.\n\npackage ocsf\n\n")
	fmt.Fprintf(&b, "var profiles = %#v\n\n", ourProfiles)

	b.WriteString("var classes = map[int64]class{\n")
	for _, name := range ourClasses {
		uid, categoryUID, category := s.place(name)
		fmt.Fprintf(&b, "%d: {caption: %q, category: %q, categoryUID: %d, attributes: ", uid, s.events[name].Caption, category, categoryUID)
		s.write(&b, s.attributes(s.events, name))
		b.WriteString("},\n")
	}
	b.WriteString("}\n\nvar objects = map[string]object{\n")
	for _, name := range ourObjects {
		fmt.Fprintf(&b, "%q: {attributes: ", name)
		s.write(&b, s.attributes(s.objects, name))
		if one := s.atLeastOne(name); one != nil {
			fmt.Fprintf(&b, ", atLeastOne: %#v", one)
		}
		b.WriteString("},\n")
	}
	b.WriteString("}\n")
	out, err := format.Source(b.Bytes())
	if err != nil {
		s.t.Fatal(err)
	}
	return out
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

// write writes the attributes that records may use, one a line.
func (s *schema) write(b *bytes.Buffer, all map[string]attribute) {
	b.WriteString("map[string]attribute{\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a := all[name]
		simple := strings.HasSuffix(a.kind, "_t") && s.dictionary.Types.Attributes[a.kind].Regex == ""
		if !simple && !slices.Contains(ourObjects, a.kind) || a.profile != "" && !slices.Contains(ourProfiles, a.profile) {
			continue
		}
		fmt.Fprintf(b, "%q: {kind: %q", name, a.kind)
		if a.array {
			b.WriteString(", array: true")
		}
		if a.required {
			b.WriteString(", required: true")
		}
		if a.profile != "" {
			fmt.Fprintf(b, ", profile: %q", a.profile)
		}
		// Those of the class are checked by arithmetic.
		if a.enum != nil && name != "class_uid" && name != "category_uid" {
			fmt.Fprintf(b, ", enum: %#v, sibling: %q", a.enum, a.sibling)
		}
		b.WriteString("},\n")
	}
	b.WriteString("}")
}
