package policy

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) *Error {
	wrongKind := func(want, hint string) *Error {
		return at(n, fmt.Sprintf("%s: must be %s, not %s", path, want, kind(n)), hint)
	}
	words := strings.FieldsFunc(tag.Get("one"), func(r rune) bool { return r == '|' })
	if n.Kind != yaml.ScalarNode || isNull(n) {
		return wrongKind(wanted(v, words), "")
	}
	tagged := n.ShortTag()
	if val, ok := v.Addr().Interface().(value); ok {
		// 0 needs no unit, and a number without a unit gets an error of its own.
		_, moment := val.(*Until)
		_, cpus := val.(*CPUs)
		if tagged != "!!str" && !(tagged == "!!timestamp" && moment) && !(tagged == "!!float" && cpus) && (tagged != "!!int" ||
			!v.CanInt() && !v.CanUint()) {
			return wrongKind(wanted(v, words), "")
		}
		if w := val.set(n.Value); w != nil {
			return at(n, path+": "+w.what, w.hint)
		}
		return inRange(n, v, path, tag)
	}
	switch v.Kind() {
	case reflect.Bool:
		switch n.Value {
		case "true", "false":
			v.SetBool(n.Value == "true")
			return nil
		}
		return wrongKind("true or false", "")
	case reflect.Int:
		i, err := strconv.ParseInt(n.Value, 10, 32)
		if tagged != "!!int" || err != nil {
			if tagged == "!!int" || tagged == "!!float" {
				return at(n, fmt.Sprintf("%s: %s is not a whole number in range", path, n.Value),
					limits(v, tag))
			}
			return wrongKind("a whole number", "")
		}
		v.SetInt(i)
		return inRange(n, v, path, tag)
	}
	if len(words) > 0 {
		if !slices.Contains(words, n.Value) {
			return at(n, fmt.Sprintf("%s: unknown value %q", path, n.Value), suggest(n.Value, words))
		}
		v.SetString(n.Value)
		return nil
	}
	form, ok := forms[tag.Get("form")]
	if tagged != "!!str" && (tagged != "!!int" || tag.Get("form") != "user") {
		return wrongKind("text", fmt.Sprintf("quote it: '%s'", n.Value))
	}
	if ok && (!form.re().MatchString(n.Value) || form.bytes != 0 && len(n.Value) > form.bytes) {
		return at(n, fmt.Sprintf("%s: invalid value %q", path, n.Value), "must be "+form.what)
	}
	v.SetString(n.Value)
	return nil
}

// wanted says what a field holds.
func wanted(v reflect.Value, words []string) string {
	if len(words) > 0 {
		return oneOf(words)
	}
	return cmp.Or(wants[v.Type()], "text")
}

var wants = map[reflect.Type]string{
	reflect.TypeFor[Duration](): "a duration",
	reflect.TypeFor[Size]():     "a size",
	reflect.TypeFor[CPUs]():     "a number of CPUs",
	reflect.TypeFor[Pattern]():  "an expression",
	reflect.TypeFor[Glob]():     "a path",
	reflect.TypeFor[NameGlob](): "a name",
	reflect.TypeFor[PairGlob](): "NAME=VALUE",
	reflect.TypeFor[Until]():    "a date or a time",
	reflect.TypeFor[int]():      "a whole number",
	reflect.TypeFor[bool]():     "true or false",
}

// number is the value that a range is about.
func number(v reflect.Value) uint64 {
	if v.CanUint() {
		return v.Uint()
	}
	return uint64(max(v.Int(), 0))
}

// bound reads a limit from a tag; ok is false if there is none.
func bound(v reflect.Value, tag reflect.StructTag, key string) (n uint64, ok bool) {
	text, ok := tag.Lookup(key)
	if !ok {
		return 0, false
	}
	x := reflect.New(v.Type()).Elem()
	if val, isValue := x.Addr().Interface().(value); isValue {
		if w := val.set(text); w != nil {
			panic(w.what) // a tag in this package
		}
		return number(x), true
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(err) // a tag in this package
	}
	return n, true
}

// limits is the range for people.
func limits(v reflect.Value, tag reflect.StructTag) string {
	if tag.Get("min") != "" && tag.Get("min") == tag.Get("max") {
		return "must be " + tag.Get("min")
	}
	low := "0"
	if min, ok := tag.Lookup("min"); ok {
		low = min
	} else if least, ok := tag.Lookup("least"); ok {
		low = "0, or " + least
	}
	return fmt.Sprintf("must be %s to %s", low, tag.Get("max"))
}

func inRange(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) *Error {
	if !v.CanInt() && !v.CanUint() {
		return nil
	}
	x := number(v)
	low, _ := bound(v, tag, "min")
	least, _ := bound(v, tag, "least")
	high, limited := bound(v, tag, "max")
	if v.CanInt() && v.Int() < 0 || x < low || x != 0 && x < least || limited && x > high {
		return at(n, fmt.Sprintf("%s: %s is out of range", path, n.Value), limits(v, tag))
	}
	if tag.Get("form") == "power" && x&(x-1) != 0 {
		lower := Size(1)
		for uint64(lower)*2 < x {
			lower *= 2
		}
		return at(n, fmt.Sprintf("%s: %s is not a power of two", path, n.Value),
			fmt.Sprintf("use %v or %v", lower, lower*2))
	}
	return nil
}
