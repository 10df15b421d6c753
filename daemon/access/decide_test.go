//go:build linux

package access

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/tracer"
)

// TestDecide is the table of api.md: every kind of caller, every verb, and
// what it is about.
func TestDecide(t *testing.T) {
	const mine, others = 1000, 1001
	callers := map[string]Caller{
		"root":         {UID: 0},
		"group":        {UID: mine, Group: true},
		"user":         {UID: mine},
		"member":       {UID: mine, Member: 7},
		"root member":  {UID: 0, Member: 7},
		"group member": {UID: mine, Group: true, Member: 7},
		"gone":         {UID: 0, Lost: true},
		"gone member":  {UID: 0, Member: 7, Lost: true},
		"gone user":    {UID: mine, Lost: true},
		"gone group":   {UID: mine, Group: true, Lost: true},
		"away user":    {UID: mine, Foreign: true}, // its PIDs are refused where they are received
	}
	scopes := map[string]Scope{
		"mine":                  {UID: mine},
		"other":                 {UID: others},
		"others' session":       {UID: others, Chain: []tracer.SessionID{5, 4}},
		"around":                {UID: mine, Chain: []tracer.SessionID{6}},
		"own":                   {UID: mine, Chain: []tracer.SessionID{7, 6}},
		"own of another uid":    {UID: others, Chain: []tracer.SessionID{7}},
		"nested":                {UID: mine, Chain: []tracer.SessionID{9, 8, 7}},
		"nested of another uid": {UID: others, Chain: []tracer.SessionID{8, 7, 6}},
	}
	verbs := []Verb{Hello, Read, Create, Adopt, Keep, End, Kill, Branch, Manage, Metrics, Mark, Order, Halt, Pause, Resume}
	member := map[string]bool{
		"read own": true, "read own of another uid": true, "read nested": true, "read nested of another uid": true,
		"end nested": true, "end nested of another uid": true,
		"pause nested": true, "pause nested of another uid": true, "resume nested": true, "resume nested of another uid": true,
		"kill nested": true, "kill nested of another uid": true,
		"mark own": true, "mark own of another uid": true,
		"end branch own": true, "end branch own of another uid": true, "end branch nested": true, "end branch nested of another uid": true,
	}
	allowed := func(who, what string, v Verb) bool {
		switch {
		case v == Hello:
			return true
		case strings.HasPrefix(who, "gone"):
			return false
		case who == "member" || who == "root member" || who == "group member":
			return v == Create || member[fmt.Sprintf("%v %s", v, what)]
		case v == Mark: // root has no session of its own either
			return false
		case who == "root" || v == Create || v == Adopt || v == Order:
			return true
		case v == Manage || v == Halt:
			return false
		case v == Metrics:
			return who == "group"
		case who == "group" && v == Read:
			return true
		}
		return scopes[what].UID == mine
	}
	if len(verbs) != int(Resume) {
		t.Fatalf("%d verbs, not all", len(verbs))
	}
	n := 0
	for who, c := range callers {
		for what, scope := range scopes {
			for _, v := range verbs {
				n++
				d := Decide(c, v, scope)
				if d.Allow != allowed(who, what, v) {
					t.Errorf("%s may %v %s: %v (%s)", who, v, what, d.Allow, d.Why)
				}
				if !d.Allow && d.Why == "" {
					t.Errorf("%s may not %v %s, and is not told why", who, v, what)
				}
			}
		}
	}
	if n != len(callers)*len(scopes)*len(verbs) {
		t.Errorf("%d cases", n)
	}
}

// TestSees: every kind of caller, and every user of a command line.
func TestSees(t *testing.T) {
	hide := func(argv []string) []string { return []string{"hidden"} }
	for _, c := range []struct {
		who  Caller
		uid  uint32
		want Sight
		argv string
	}{
		{Caller{UID: 0}, 1000, Whole, "[a b]"},
		{Caller{UID: 1000}, 1000, Whole, "[a b]"},
		{Caller{UID: 1000}, 0, Nothing, "[]"},
		{Caller{UID: 1000, Group: true}, 1000, Whole, "[a b]"},
		{Caller{UID: 1000, Group: true}, 1001, Redacted, "[hidden]"},
		{Caller{UID: 1000, Group: true}, 0, Redacted, "[hidden]"},
		{Caller{UID: 0, Group: true}, 1000, Whole, "[a b]"},
		{Caller{UID: 1000, Member: 3}, 1000, Whole, "[a b]"},
		{Caller{UID: 1000, Group: true, Member: 3}, 1000, Whole, "[a b]"},
		{Caller{UID: 1000, Group: true, Member: 3}, 1001, Nothing, "[]"},
		{Caller{UID: 0, Member: 3}, 1000, Nothing, "[]"},
		{Caller{UID: 0, Group: true, Member: 3}, 1000, Nothing, "[]"},
	} {
		c.who.Redact = hide
		if got, argv := c.who.Sees(c.uid), fmt.Sprint(c.who.Argv(c.uid, []string{"a", "b"})); got != c.want || argv != c.argv {
			t.Errorf("%+v gets of uid %d: %v, %s", c.who, c.uid, got, argv)
		}
	}
	if c := (Caller{UID: 1000, Group: true}); c.Argv(1001, []string{"a"}) != nil {
		t.Error("without a redaction a command line is whole")
	}
}

// TestRedactAfter: nothing is redacted while others wait. What is read meanwhile is blank, not a
// secret, and redacted afterwards, also when it is redacted twice.
func TestRedactAfter(t *testing.T) {
	reading := false
	c := Caller{UID: 1, Group: true, owed: new(owed), Redact: func(argv []string) []string {
		if reading {
			t.Error("it is redacted while others wait")
		}
		return []string{argv[0], strings.ReplaceAll(argv[1], "secret", "hidden")}
	}}
	line := []string{"x", "secret"}
	var once, twice, nested, empty []string
	err := c.RedactAfter(func() error {
		reading = true
		once = c.Argv(2, line)
		twice = c.Argv(2, once)
		empty = c.Argv(2, nil)
		if got := fmt.Sprintf("%q %q", once, twice); got != `["" ""] ["" ""]` {
			t.Errorf("read before it is redacted: %s", got)
		}
		inner := c.RedactAfter(func() error { nested = c.Argv(2, line); return nil })
		reading = false
		return errors.Join(inner, errors.New("of read"))
	})
	if got := fmt.Sprint(once, twice, nested, empty, err); got != "[x hidden] [x hidden] [x hidden] [] of read" {
		t.Error(got)
	}
	if got := fmt.Sprint(c.Argv(2, line), line); got != "[x hidden] [x secret]" {
		t.Error(got)
	}
}
