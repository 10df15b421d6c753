package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// A group is an element of an agent's list for an event.
type group struct {
	Hooks []setupHook `json:"hooks"`
}

type setupHook struct {
	Type    string `json:"type"`
	Command string `json:"command"`
}

// command is what the agent's shell runs, and becomes: one process for each hook, which a tree shows on one row.
// The path is absolute, because the agent's PATH may differ from the user's.
func (a Agent) command(program string) string {
	if !regexp.MustCompile(`^[A-Za-z0-9/._+-]+$`).MatchString(program) {
		program = "'" + strings.ReplaceAll(program, "'", `'\''`) + "'"
	}
	return "exec " + program + " hook " + a.Name
}

// ours reports whether a command is one that a setup wrote, with any path.
func (a Agent) ours(command string) bool {
	program, found := strings.CutSuffix(command, " hook "+a.Name)
	program = strings.Trim(strings.TrimPrefix(program, "exec "), "'")
	return found && (program == "lineage" || strings.HasSuffix(program, "/lineage"))
}

// maxNested bounds what the parser has on its stack, which calls itself for each object and list in another one.
const maxNested = 50_000

// merge is the text with the hooks of all events, or without them. They come first in their
// lists, so that existing text does not change, not even a comma.
func (a Agent) merge(text []byte, program string, undo bool) ([]byte, error) {
	if text == nil {
		if undo {
			return nil, nil
		}
		text = []byte("{}\n")
	}
	if bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("[")) > maxNested {
		return nil, fmt.Errorf("more than %d objects and lists", maxNested)
	}
	root, err := hujson.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	top, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, errors.New("invalid: the file is not a JSON object")
	}
	if !undo {
		if found, err := a.complete(top, program); found || err != nil {
			return text, err
		}
	}
	if err := a.remove(top); err != nil {
		return nil, err
	}
	if undo {
		if after := root.Pack(); string(bytes.TrimSpace(after)) != "{}" || len(bytes.TrimSpace(text)) == 2 {
			return after, nil
		}
		return nil, nil // nothing else was in it
	}
	l := layout(indentation(top))
	flat := len(top.Members) > 0 && !bytes.ContainsRune(bytes.TrimSpace(text), '\n') // then each line break will be ours
	hooks, err := valueIn[*hujson.Object](top, "hooks", "object")
	if err != nil {
		return nil, err
	}
	if hooks == nil {
		hooks = &hujson.Object{}
		l.insertMember(top, "hooks", hooks, 1)
	}
	for _, event := range slices.Backward(a.events) {
		list, err := valueIn[*hujson.Array](hooks, event, "array")
		if err != nil {
			return nil, err
		}
		if list == nil {
			list = &hujson.Array{}
			l.insertMember(hooks, event, list, 2)
		}
		l.insertElement(list, group{[]setupHook{{"command", a.command(program)}}}, 3)
	}
	if flat {
		return append(regexp.MustCompile("\n *").ReplaceAll(root.Pack(), nil),
			text[len(bytes.TrimRight(text, "\n")):]...), nil
	}
	return root.Pack(), nil
}

// complete reports whether each event has exactly this hook.
func (a Agent) complete(top *hujson.Object, program string) (bool, error) {
	hooks, err := valueIn[*hujson.Object](top, "hooks", "object")
	if hooks == nil || err != nil {
		return false, err
	}
	for _, event := range a.events {
		list, err := valueIn[*hujson.Array](hooks, event, "array")
		if list == nil || err != nil {
			return false, err
		}
		if !slices.ContainsFunc(list.Elements, func(v hujson.Value) bool {
			g := groupOf(v)
			return len(g.Hooks) == 1 && g.Hooks[0].Command == a.command(program)
		}) {
			return false, nil
		}
	}
	return true, nil
}

// remove removes the groups that a setup wrote, and what is then empty.
func (a Agent) remove(top *hujson.Object) error {
	hooks, err := valueIn[*hujson.Object](top, "hooks", "object")
	if hooks == nil || err != nil {
		return err
	}
	removed := false
	for _, event := range a.events {
		list, err := valueIn[*hujson.Array](hooks, event, "array")
		if err != nil {
			return err
		}
		if list == nil {
			continue
		}
		before := len(list.Elements)
		for i := len(list.Elements) - 1; i >= 0; i-- {
			if g := groupOf(list.Elements[i]); len(g.Hooks) == 1 && a.ours(g.Hooks[0].Command) {
				removeElement(list, i)
			}
		}
		if len(list.Elements) < before {
			removed = true
			if len(list.Elements) == 0 {
				removeMember(hooks, event)
			}
		}
	}
	if removed && len(hooks.Members) == 0 {
		removeMember(top, "hooks")
	}
	return nil
}

// groupOf reads one element; an element that is not a group has no hooks.
func groupOf(v hujson.Value) (g group) {
	v = v.Clone()
	v.Standardize()
	_ = json.Unmarshal(v.Pack(), &g)
	return g
}

// memberAt is where the first member of a name is; -1: there is none.
func memberAt(o *hujson.Object, name string) int {
	return slices.IndexFunc(o.Members, func(m hujson.ObjectMember) bool {
		n, ok := m.Name.Value.(hujson.Literal)
		return ok && n.String() == name
	})
}

// valueIn is the value of a name, nil if there is none, an error if it has another type, or the name is there twice.
func valueIn[T hujson.ValueTrimmed](o *hujson.Object, name, kind string) (found T, err error) {
	i := memberAt(o, name)
	if i < 0 {
		return found, nil
	}
	if memberAt(&hujson.Object{Members: o.Members[i+1:]}, name) >= 0 {
		return found, fmt.Errorf("invalid: %q is there twice", name)
	}
	found, ok := o.Members[i].Value.Value.(T)
	if !ok {
		return found, fmt.Errorf("invalid: %q is not an %s", name, kind)
	}
	return found, nil
}
