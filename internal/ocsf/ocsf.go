// Package ocsf has the parts of the Open Cybersecurity Schema Framework 1.8.0 for the classes
// and objects that lineage uses, and checks records against them. table.go has attributes,
// types, enumerations and constraints, but no text of the schema.
package ocsf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Version is the version of the schema.
const Version = "1.8.0"

// class is an event class.
type class struct {
	caption, category string
	categoryUID       int64
	attributes        map[string]attribute
}

// object is what an attribute of an object type holds.
type object struct {
	attributes map[string]attribute
	atLeastOne []string // of these attributes
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

// Validate checks one event, as JSON. The error names every violation with its path.
func Validate(event []byte) error {
	if !utf8.Valid(event) {
		return errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(event))
	d.UseNumber()
	var e map[string]any
	if err := d.Decode(&e); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	v := validator{profiles: profilesOf(e)}
	v.event(e)
	return errors.Join(v.wrong...)
}

func profilesOf(e map[string]any) (names []string) {
	m, _ := e["metadata"].(map[string]any)
	all, _ := m["profiles"].([]any)
	for _, p := range all {
		name, _ := p.(string)
		names = append(names, name)
	}
	return names
}

// validator collects the violations of an event.
type validator struct {
	profiles []string // of the event
	wrong    []error
}

func (v *validator) say(path, format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// event checks the class, and that the numbers and captions that classify the
// event agree.
func (v *validator) event(e map[string]any) {
	uid, ok := whole(e["class_uid"])
	c, known := classes[uid]
	if !ok || !known {
		v.say("class_uid", "%v is not a class of the table", e["class_uid"])
		return
	}
	v.fields("", c.attributes, e)
	for _, p := range v.profiles {
		if !slices.Contains(profiles, p) {
			v.say("metadata.profiles", "%q is not a profile of the table", p)
		}
	}
	activity, _ := whole(e["activity_id"])
	name := c.attributes["activity_id"].enum[strconv.FormatInt(activity, 10)]
	for _, is := range []struct {
		key  string
		want any
	}{
		{"category_uid", c.categoryUID}, {"category_name", c.category}, {"class_name", c.caption},
		{"type_uid", uid*100 + activity}, {"type_name", c.caption + ": " + name},
	} {
		if got, has := e[is.key]; has && fmt.Sprint(got) != fmt.Sprint(is.want) {
			v.say(is.key, "%v, want %v", got, is.want)
		}
	}
	if m, _ := e["metadata"].(map[string]any); m["version"] != Version {
		v.say("metadata.version", "%v, want %s", m["version"], Version)
	}
}

// fields checks the attributes of an event or an object.
func (v *validator) fields(path string, known map[string]attribute, o map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(known)) {
		a := known[name]
		if _, has := o[name]; a.required && !has && (a.profile == "" || slices.Contains(v.profiles, a.profile)) {
			v.say(path+name, "required, and missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		a, ok := known[name]
		at := path + name
		switch {
		case !ok:
			v.say(at, "not an attribute of the table")
			continue
		case a.profile != "" && !slices.Contains(v.profiles, a.profile):
			v.say(at, "of profile %s, which metadata.profiles lacks", a.profile)
		}
		if !a.array {
			v.value(at, a, o[name], o)
			continue
		}
		items, ok := o[name].([]any)
		if !ok || len(items) == 0 {
			v.say(at, "want a list with items")
		}
		for i, item := range items {
			v.value(fmt.Sprintf("%s[%d]", at, i), a, item, o)
		}
	}
}

// value checks one value of an attribute of o.
func (v *validator) value(at string, a attribute, value any, o map[string]any) {
	switch a.kind {
	case "boolean_t":
		if _, ok := value.(bool); !ok {
			v.say(at, "%v is not a boolean", value)
		}
		return
	case "integer_t", "long_t", "timestamp_t", "port_t":
		v.number(at, a, value, o)
		return
	case "float_t":
		if n, ok := value.(json.Number); !ok {
			v.say(at, "%v is not a number", value)
		} else if _, err := n.Float64(); err != nil {
			v.say(at, "%v", err)
		}
		return
	case "json_t":
		return
	}
	if strings.HasSuffix(a.kind, "_t") {
		if _, ok := value.(string); !ok {
			v.say(at, "%v is not a string", value)
		}
		return
	}
	inner, ok := value.(map[string]any)
	if !ok {
		v.say(at, "%v is not an object", value)
		return
	}
	if a.kind == "object" {
		return // any attributes
	}
	kind, known := objects[a.kind]
	if !known {
		v.say(at, "the table lacks object %s", a.kind)
		return
	}
	v.fields(at+".", kind.attributes, inner)
	if len(kind.atLeastOne) > 0 && !slices.ContainsFunc(kind.atLeastOne, func(name string) bool { _, has := inner[name]; return has }) {
		v.say(at, "has none of %s", strings.Join(kind.atLeastOne, ", "))
	}
}

// number checks a whole number: one of an enumeration must match the caption beside it, if any.
func (v *validator) number(at string, a attribute, value any, o map[string]any) {
	n, ok := whole(value)
	if !ok {
		v.say(at, "%v is not a whole number", value)
		return
	}
	if a.kind == "timestamp_t" && (n < 1e12 || n > 1e13) {
		v.say(at, "%d is not a time of this millennium in milliseconds", n)
	}
	if a.kind == "port_t" && (n < 0 || n > 65535) {
		v.say(at, "%d is not a port", n)
	}
	if a.enum == nil {
		return
	}
	caption, known := a.enum[strconv.FormatInt(n, 10)]
	said, has := o[a.sibling]
	switch {
	case !known:
		v.say(at, "%d is not in the enumeration", n)
	case n == 99 && (!has || said == ""):
		v.say(at, "99 without its own word in %s", a.sibling)
	case n != 99 && has && said != caption:
		v.say(at, "%d is %q, %s has %q", n, caption, a.sibling, said)
	}
}

func whole(value any) (int64, bool) {
	n, ok := value.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}
