package hook

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// A layout formats new values like the file around them: it is the unit of indentation.
type layout string

// indentation is the indentation of the first member, or two spaces.
func indentation(top *hujson.Object) string {
	if len(top.Members) > 0 {
		before := string(top.Members[0].Name.BeforeExtra)
		if i := strings.LastIndexByte(before, '\n'); i >= 0 && i+1 < len(before) {
			return before[i+1:]
		}
	}
	return "  "
}

func (l layout) line(depth int) string { return "\n" + strings.Repeat(string(l), depth) }

func (l layout) insertMember(o *hujson.Object, name string, v hujson.ValueTrimmed, depth int) {
	m := hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: hujson.Extra(l.line(depth)), Value: hujson.String(name)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: v},
	}
	if len(o.Members) == 0 {
		l.open(&m.Name, &o.AfterExtra, depth)
	}
	o.Members = slices.Insert(o.Members, 0, m)
}

func (l layout) insertElement(list *hujson.Array, v any, depth int) {
	text, err := json.MarshalIndent(v, strings.Repeat(string(l), depth), string(l))
	if err != nil {
		panic(err) // a group can be encoded
	}
	element, err := hujson.Parse(text)
	if err != nil {
		panic(err)
	}
	element.BeforeExtra, element.AfterExtra = hujson.Extra(l.line(depth)), nil
	if len(list.Elements) == 0 {
		l.open(&element, &list.AfterExtra, depth)
	}
	list.Elements = slices.Insert(list.Elements, 0, element)
}

// open puts the first value of an empty object or array on a line of its own. A comment that
// is between the brackets stays before it.
func (l layout) open(first *hujson.Value, between *hujson.Extra, depth int) {
	first.BeforeExtra = append(bytes.TrimRight(*between, " \t\r\n"), first.BeforeExtra...)
	*between = hujson.Extra(l.line(depth - 1))
}

// removeMember removes a member. Comments around it, and in an empty object or array, stay.
func removeMember(o *hujson.Object, name string) {
	i := memberAt(o, name)
	m := o.Members[i]
	var within hujson.Extra
	switch x := m.Value.Value.(type) {
	case *hujson.Object:
		within = x.AfterExtra
	case *hujson.Array:
		within = x.AfterExtra
	}
	parts := func(m *hujson.ObjectMember) (*hujson.Extra, *hujson.Value) {
		return &m.Name.BeforeExtra, &m.Value
	}
	remove(&o.Members, i, parts, &o.AfterExtra, m.Name.AfterExtra, m.Value.BeforeExtra, within)
}

// removeElement does the same in an array.
func removeElement(list *hujson.Array, i int) {
	parts := func(v *hujson.Value) (*hujson.Extra, *hujson.Value) {
		return &v.BeforeExtra, v
	}
	remove(&list.Elements, i, parts, &list.AfterExtra)
}

// remove removes one of all, of which parts gives the value and what is before it; end is what is behind the last
// one. A comma after the last value stays, and none is added: hujson would write one if the value has an extra after it.
func remove[T any](all *[]T, i int, parts func(*T) (*hujson.Extra, *hujson.Value),
	end *hujson.Extra, within ...hujson.Extra) {
	before, v := parts(&(*all)[i])
	after := v.AfterExtra
	around := comments(slices.Concat([]hujson.Extra{*before}, within, []hujson.Extra{after})...)
	*all = slices.Delete(*all, i, i+1)
	switch {
	case i < len(*all):
		next, _ := parts(&(*all)[i])
		*next = append(around, *next...)
		return
	case i == 0:
		*end = append(around, comments(*end)...)
		if n := len(*end); n > 0 && (*end)[n-1] != '\n' {
			*end = append(*end, '\n') // the comment may need the rest of its line
		}
		return
	}
	_, last := parts(&(*all)[i-1])
	if after != nil {
		last.AfterExtra = append(append(hujson.Extra{}, last.AfterExtra...), around...)
		return
	}
	*end = slices.Concat(last.AfterExtra, around, *end)
	last.AfterExtra = nil
}

// comments joins the extras that contain comments, unchanged.
func comments(all ...hujson.Extra) (found hujson.Extra) {
	for _, e := range all {
		if len(bytes.TrimSpace(e)) > 0 {
			found = append(found, bytes.TrimRight(e, " \t\r")...)
		}
	}
	return found
}
