package hook

import (
	"os"
	"strings"
	"testing"
)

// Hooks of other programs stay as they are, also where ours are beside them.
func TestOthersStay(t *testing.T) {
	claude := Agents[0]
	for what, group := range map[string]string{
		"another program":       `{"hooks": [{"type": "command", "command": "other hook claude-code"}]}`,
		"a program like ours":   `{"hooks": [{"type": "command", "command": "/usr/bin/my-lineage hook claude-code"}]}`,
		"another agent's":       `{"hooks": [{"type": "command", "command": "lineage hook codex"}]}`,
		"a wrapper":             `{"hooks": [{"type": "command", "command": "lineage hook claude-code | tee log"}]}`,
		"a group with the user": `{"hooks": [{"type": "command", "command": "lineage hook claude-code"}, {"type": "command", "command": "mine"}]}`,
		"an empty group":        `{"matcher": "Bash", "hooks": []}`,
	} {
		text := `{"hooks": {"Stop": [` + group + `]}}`
		dir, path := home(t, claude, text)
		for _, undo := range []bool{true, false, true} {
			apply(t, claude, dir, undo)
			after, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(after), group) {
				t.Errorf("%s, undo %v: %v %s", what, undo, err, after)
			}
			if undo && string(after) != text {
				t.Errorf("%s: undone, it is %s", what, after)
			}
		}
	}
}
