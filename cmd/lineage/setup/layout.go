package setup

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// A layout formats new values like the file around them.
type layout struct {
	unit string // of indentation
}

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

func (l layout) line(depth int) string { return "\n" + strings.Repeat(l.unit, depth) }

// insertMember puts a member first.
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

// insertElement puts an element first.
func (l layout) insertElement(list *hujson.Array, v any, depth int) {
	text, err := json.MarshalIndent(v, strings.Repeat(l.unit, depth), l.unit)
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

// removeMember removes a member. Comments around it stay.
func removeMember(o *hujson.Object, name string) {
	i := slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool {
		n, ok := m.Name.Value.(hujson.Literal)
		return ok && n.String() == name
	})
	m := o.Members[i]
	o.Members = slices.Delete(o.Members, i, i+1)
	around := comments(m.Name.BeforeExtra, m.Name.AfterExtra, m.Value.BeforeExtra, between(m.Value), m.Value.AfterExtra)
	if i < len(o.Members) {
		o.Members[i].Name.BeforeExtra = append(around, o.Members[i].Name.BeforeExtra...)
		return
	}
	var last *hujson.Value
	if i > 0 {
		last = &o.Members[i-1].Value
	}
	closed(last, &o.AfterExtra, around, m.Value.AfterExtra != nil)
}

// removeElement does the same in an array.
func removeElement(list *hujson.Array, i int) {
	v := list.Elements[i]
	list.Elements = slices.Delete(list.Elements, i, i+1)
	around := comments(v.BeforeExtra, v.AfterExtra)
	if i < len(list.Elements) {
		list.Elements[i].BeforeExtra = append(around, list.Elements[i].BeforeExtra...)
		return
	}
	var last *hujson.Value
	if i > 0 {
		last = &list.Elements[i-1]
	}
	closed(last, &list.AfterExtra, around, v.AfterExtra != nil)
}

// closed fixes the end after the last value was removed: now another value is the last, or
// none. A comma after the last value stays, and none is added: hujson would write one if the
// value has an extra after it.
func closed(last *hujson.Value, end *hujson.Extra, around hujson.Extra, comma bool) {
	switch {
	case last == nil:
		*end = append(around, comments(*end)...)
		if n := len(*end); n > 0 && (*end)[n-1] != '\n' {
			*end = append(*end, '\n') // the comment may need the rest of its line
		}
	case comma:
		last.AfterExtra = append(last.AfterExtra, around...)
		if last.AfterExtra == nil {
			last.AfterExtra = hujson.Extra{}
		}
	default:
		*end = slices.Concat(last.AfterExtra, around, *end)
		last.AfterExtra = nil
	}
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

// between is what an empty object or array has between its brackets.
func between(v hujson.Value) hujson.Extra {
	switch x := v.Value.(type) {
	case *hujson.Object:
		return x.AfterExtra
	case *hujson.Array:
		return x.AfterExtra
	}
	return nil
}
