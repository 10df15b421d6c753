package policy

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v4"
)

const DefaultFile = "/etc/lineage/policy.yaml"

// Load reads a policy file. An error in its text is an [*Error].
func Load(path string) (*Policy, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO may have no writer
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer f.Close()
	return Read(path, f)
}

// Read reads a policy from r; file is its name in errors and origins.
func Read(file string, r io.Reader) (*Policy, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read policy %s: %w", file, err)
	}
	return Parse(file, data)
}

// Parse reads the text of a policy over the built-in values. If it fails, the error is
// an [*Error] and there is no policy.
func Parse(file string, data []byte) (*Policy, error) {
	root, bad := parseYAML(file, data)
	if bad != nil {
		return nil, bad
	}
	if root == nil {
		return nil, &Error{file, 1, 1, "the policy is empty", `start it with "version: 1"`, nil}
	}
	d := &decoder{policy: Default()}
	d.policy.file = file
	if d.wrong(0, d.mapping(root, reflect.ValueOf(d.policy).Elem(), "")) {
		for _, bad := range d.mistakes {
			bad.File = file
		}
		d.mistakes[0].More = d.mistakes[1:]
		return nil, d.mistakes[0]
	}
	return d.policy, nil
}

// decoder fills one policy, past mistakes in the values of keys and items.
type decoder struct {
	policy   *Policy
	mistakes []*Error
}

// maxMistakes bounds the mistakes that one error has.
const maxMistakes = 20

// wrong notes a mistake, and reports whether there is one since there were before.
func (d *decoder) wrong(before int, bad *Error) bool {
	if bad != nil && len(d.mistakes) < maxMistakes {
		d.mistakes = append(d.mistakes, bad)
	}
	return len(d.mistakes) > before
}

func at(n *yaml.Node, what, hint string) *Error {
	return &Error{Line: n.Line, Column: n.Column, What: what, Hint: hint}
}

// plainNode refuses YAML features that make a policy hard to read.
func plainNode(n *yaml.Node, path string) *Error {
	switch {
	case n.Kind == yaml.AliasNode:
		return at(n, fmt.Sprintf("%s: aliases are not supported", path), "write the value")
	case n.Anchor != "":
		return at(n, fmt.Sprintf("%s: anchors are not supported", path), "write the value where it is used")
	case n.Style&yaml.TaggedStyle != 0:
		return at(n, fmt.Sprintf("%s: tags such as %s are not supported", path, n.Tag),
			"write the value without it")
	}
	return nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// kind is what a node is, for people.
func kind(n *yaml.Node) string {
	return cmp.Or(kinds[n.ShortTag()], "text")
}

var kinds = map[string]string{
	"!!map": "a mapping", "!!seq": "a list", "!!null": "nothing", "!!bool": "a boolean",
	"!!int": "a number", "!!float": "a number", "!!timestamp": "a date",
}

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// named is a path for people: the root has no name.
func named(path string) string { return cmp.Or(path, "the policy") }

// field is a key that a struct knows.
type field struct {
	reflect.StructField
	key   string
	index int
}

func (f field) needed() bool { return f.Tag.Get("need") != "" }

func fields(t reflect.Type) (all []field) {
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("key"); key != "" {
			all = append(all, field{t.Field(i), key, i})
		}
	}
	return all
}

// mapping reads a struct. A given key replaces the built-in value, except that lists
// are added to it.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) *Error {
	if bad := plainNode(n, named(path)); bad != nil {
		return bad
	}
	known := fields(v.Type())
	selects := v.Type() == reflect.TypeFor[Match]() || v.Type() == reflect.TypeFor[Rooms]()
	if isNull(n) && !selects && !slices.ContainsFunc(known, field.needed) {
		return nil // all of its keys are commented out
	}
	if n.Kind != yaml.MappingNode {
		return at(n, fmt.Sprintf("%s: must be a mapping, not %s", named(path), kind(n)),
			`write one "key: value" on each line`)
	}
	var words []string
	for _, f := range known {
		words = append(words, f.key)
	}
	seen, before := map[string]*yaml.Node{}, len(d.mistakes)
	for i := 0; i+1 < len(n.Content) && len(d.mistakes) < maxMistakes; i += 2 {
		key, item := n.Content[i], n.Content[i+1]
		where := named(path)
		if bad := plainNode(key, where); bad != nil {
			return bad
		}
		if key.Kind != yaml.ScalarNode {
			return at(key, fmt.Sprintf("%s: a key must be a word, not %s", where, kind(key)),
				"use "+oneOf(words))
		}
		which := slices.Index(words, key.Value)
		if which < 0 {
			d.wrong(before, at(key, fmt.Sprintf("unknown key %q in %s", key.Value, where), suggest(key.Value, words)))
			continue
		}
		if first := seen[key.Value]; first != nil {
			return at(key, fmt.Sprintf("%s is given twice", join(path, key.Value)),
				fmt.Sprintf("first in line %d", first.Line))
		}
		seen[key.Value] = key
		f := known[which]
		d.wrong(before, d.value(item, v.Field(f.index), join(path, f.key), f.Tag))
		d.policy.lines[join(path, f.key)] = key.Line
	}
	if len(d.mistakes) > before {
		return nil // a key that seems to be missing may be the misspelt one
	}
	for _, f := range known {
		if f.needed() && seen[f.key] == nil {
			hint := fmt.Sprintf("add %q", f.key+":")
			if path == "" {
				hint = `add "version: 1"`
			}
			return at(n, fmt.Sprintf("%s is missing in %s", f.key, named(path)), hint)
		}
	}
	if selects && len(n.Content) == 0 {
		return at(n, fmt.Sprintf("%s selects everything", path), "use "+oneOf(words))
	}
	return nil
}

func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) *Error {
	if bad := plainNode(n, path); bad != nil {
		return bad
	}
	_, single := v.Addr().Interface().(value)
	switch {
	case single:
	case v.Kind() == reflect.Slice:
		return d.list(n, v, path, tag)
	case v.Kind() == reflect.Pointer:
		if strings.Count(path, ".parent") > maxParents {
			return at(n, fmt.Sprintf("a match has more than %d parents", maxParents), "name fewer")
		}
		v.Set(reflect.New(v.Type().Elem()))
		return d.mapping(n, v.Elem(), path)
	case v.Kind() == reflect.Struct:
		return d.mapping(n, v, path)
	}
	return d.scalar(n, v, path, tag)
}

// maxItems bounds a list, and maxParents the creators that a match names, one in the other.
const (
	maxItems   = 1000
	maxParents = 16
)

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) *Error {
	anyOf := tag.Get("list") == "any"
	items := n.Content
	switch {
	case isNull(n) && !anyOf && tag.Get("one") == "":
		return nil // all of its items are commented out
	case n.Kind == yaml.ScalarNode && !isNull(n) && anyOf:
		items = []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode:
		return at(n, fmt.Sprintf("%s: must be a list, not %s", path, kind(n)),
			"write [a, b], or a dash before each item")
	}
	if len(items) > maxItems {
		return at(items[maxItems], fmt.Sprintf("%s: more than %d items", path, maxItems), "")
	}
	elem := v.Type().Elem()
	if tag.Get("one") != "" || anyOf {
		v.SetLen(0) // a choice, not an addition
		if len(items) == 0 {
			return at(n, path+": the list is empty", "omit the key")
		}
	}
	for i, item := range items {
		x := reflect.New(elem).Elem()
		itemPath := fmt.Sprintf("%s[%d]", path, i)
		if before := len(d.mistakes); d.wrong(before, d.value(item, x, itemPath, tag)) ||
			d.wrong(before, d.unique(item, v, x, path)) {
			continue
		}
		d.policy.lines[itemPath] = item.Line
		if r, ok := x.Addr().Interface().(rule); ok {
			*r.place() = itemPath
		}
		if r, ok := x.Addr().Interface().(checked); ok {
			if key, w := r.check(); w != nil {
				d.wrong(0, at(valueOf(item, key), join(itemPath, key)+": "+w.what, w.hint))
				continue
			}
		}
		v.Set(reflect.Append(v, x))
	}
	return nil
}

// unique refuses a second rule of the same name, and a repeated word.
func (d *decoder) unique(n *yaml.Node, v, x reflect.Value, path string) *Error {
	if x.Kind() == reflect.String {
		for i := range v.Len() {
			if v.Index(i).String() == x.String() {
				return at(n, fmt.Sprintf("%s: %q is listed twice", path, x.String()), "")
			}
		}
		return nil
	}
	for i := range v.Len() {
		other, ok := v.Index(i).Addr().Interface().(rule)
		if !ok || label(v.Index(i)) != label(x) {
			continue
		}
		hint := "it is built in; choose another name"
		if from := *other.place(); from != "" {
			hint = fmt.Sprintf("first in line %d", d.policy.lines[from])
		}
		return at(valueOf(n, "name"), fmt.Sprintf("%s: two rules have the name %q", path, label(x)), hint)
	}
	return nil
}

func label(rule reflect.Value) string { return rule.FieldByName("Name").String() }

// valueOf finds a key of a mapping that was read.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return n
}
