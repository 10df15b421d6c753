//go:build linux

package daemon

import (
	"fmt"
	"strings"
	"testing"
)

// TestDecide is the table of api.md: every kind of caller, every verb, and
// what it is about.
func TestDecide(t *testing.T) {
	const mine, others = 1000, 1001
	callers := map[string]caller{
		"root":         {uid: 0},
		"group":        {uid: mine, group: true},
		"user":         {uid: mine},
		"member":       {uid: mine, member: 7},
		"root member":  {uid: 0, member: 7},
		"group member": {uid: mine, group: true, member: 7},
		"gone":         {uid: 0, lost: true},
		"gone member":  {uid: 0, member: 7, lost: true},
		"gone user":    {uid: mine, lost: true},
		"gone group":   {uid: mine, group: true, lost: true},
		"away user":    {uid: mine, foreign: true}, // its PIDs are refused where they come in
	}
	targets := map[string]target{
		"mine":                  {uid: mine},
		"other":                 {uid: others},
		"own":                   {uid: mine, relation: own},
		"own of another uid":    {uid: others, relation: own},
		"nested":                {uid: mine, relation: nested},
		"nested of another uid": {uid: others, relation: nested},
	}
	verbs := []verb{verbHello, verbRead, verbCreate, verbAdopt, verbKeep, verbEnd, verbKill, verbManage, verbMetrics}
	member := map[string]bool{
		"read own": true, "read own of another uid": true, "read nested": true, "read nested of another uid": true,
		"end nested": true, "end nested of another uid": true,
		"kill nested": true, "kill nested of another uid": true,
	}
	allowed := func(who, what string, v verb) bool {
		switch {
		case v == verbHello:
			return true
		case strings.HasPrefix(who, "gone"):
			return false
		case who == "member" || who == "root member" || who == "group member":
			return v == verbCreate || member[fmt.Sprintf("%v %s", v, what)]
		case who == "root" || v == verbCreate || v == verbAdopt:
			return true
		case v == verbManage:
			return false
		case v == verbMetrics:
			return who == "group"
		case who == "group" && v == verbRead:
			return true
		}
		return targets[what].uid == mine
	}
	if len(verbs) != int(verbMetrics)+1 {
		t.Fatalf("%d verbs, not all", len(verbs))
	}
	n := 0
	for who, c := range callers {
		for what, target := range targets {
			for _, v := range verbs {
				n++
				d := decide(c, v, target)
				if d.allow != allowed(who, what, v) {
					t.Errorf("%s may %v %s: %v (%s)", who, v, what, d.allow, d.why)
				}
				if !d.allow && d.why == "" {
					t.Errorf("%s may not %v %s, and is not told why", who, v, what)
				}
			}
		}
	}
	if n != len(callers)*len(targets)*len(verbs) {
		t.Errorf("%d cases", n)
	}
}

func TestArgvIsForItsUID(t *testing.T) {
	for _, c := range []struct {
		who  caller
		uid  uint32
		want bool
	}{
		{caller{uid: 0}, 1000, true},
		{caller{uid: 1000}, 1000, true},
		{caller{uid: 1000}, 0, false},
		{caller{uid: 1000, group: true}, 1001, false},
		{caller{uid: 0, member: 3}, 1000, false},
	} {
		if got := c.who.MayReadArgv(c.uid); got != c.want {
			t.Errorf("%+v reads argv of uid %d: %v", c.who, c.uid, got)
		}
	}
}
