package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/tailscale/hujson"
)

func noEnv(string) string { return "" }

// home makes a home directory in which the agent's file has this text.
func home(t *testing.T, a Agent, text string) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, a.dir, a.file)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o640))
	return dir, path
}

func apply(t *testing.T, a Agent, dir string, undo bool) *Change {
	t.Helper()
	c, err := a.Plan(dir, noEnv, "/usr/local/bin/lineage", undo, false)
	require.NoError(t, err)
	require.NoError(t, c.Write())
	return c
}

// A setup keeps the user's text byte for byte, and an undo leaves nothing else.
func TestSetupAndUndo(t *testing.T) {
	claude := Agents[0]
	for name, text := range map[string]string{
		"settings":       "{\n  \"model\": \"opus\",\n  \"permissions\": {\"allow\": [\"Bash\"]}\n}\n",
		"tabs":           "{\n\t\"z\": 1,\n\t\"a\": 2\n}\n",
		"comments":       "// mine\n{\n  // first\n  \"model\": \"opus\", /* why */\n  \"x\": [1, 2,], // last\n}\n// end\n",
		"only a comment": "{ /* nothing yet */\n}\n",
		"hooks": `{
    "hooks": {
        // notify me
        "Stop": [
            { "hooks": [ { "type": "command", "command": "notify-send done" } ] } // keep
        ],
        "Notification": []
    },
    "model": "opus"
}
`,
		"one line": `{"model":"opus","hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir, path := home(t, claude, text)
			apply(t, claude, dir, false)
			after := require.ReadFile(t, path)
			for line := range strings.Lines(text) {
				if line = strings.TrimSpace(line); strings.Contains(line, "//") && !strings.Contains(string(after), line) {
					t.Errorf("%q is not there any longer:\n%s", line, after)
				}
			}
			if name == "one line" && bytes.ContainsRune(after, '\n') {
				t.Errorf("it was one line, and is not now:\n%s", after)
			}
			if json.Valid([]byte(text)) && !json.Valid(after) {
				t.Errorf("it was standard JSON, and is not now:\n%s", after)
			}
			std, err := hujson.Standardize(after)
			if err != nil {
				t.Fatalf("%v:\n%s", err, after)
			}
			var got struct {
				Hooks map[string][]group
			}
			require.NoError(t, json.Unmarshal(std, &got))
			for _, event := range claude.events {
				n := 0
				for _, g := range got.Hooks[event] {
					if g.Hooks[0].Command == "exec /usr/local/bin/lineage hook claude-code" {
						n++
					}
				}
				if n != 1 {
					t.Errorf("%s has %d hooks of ours:\n%s", event, n, after)
				}
			}
			if again, err := claude.Plan(dir, noEnv, "/usr/local/bin/lineage", false, false); err != nil || !again.Empty() {
				t.Errorf("a second setup changes the file: %v\n%s", err, again.Diff())
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("mode %v %v", info.Mode(), err)
			}
			// The hook of another version at another path is replaced, not added.
			moved, err := claude.Plan(dir, noEnv, "/opt/new lineage/lineage", false, false)
			if err != nil || strings.Count(string(moved.after), " hook claude-code") != len(claude.events) {
				t.Errorf("%v: %s", err, moved.after)
			}
			apply(t, claude, dir, true)
			if back, err := os.ReadFile(path); err != nil || string(back) != text {
				t.Errorf("undone: %v %q, want %q", err, back, text)
			}
			if again, err := claude.Plan(dir, noEnv, "/usr/local/bin/lineage", true, false); err != nil || !again.Empty() {
				t.Errorf("a second undo changes the file: %v", err)
			}
		})
	}
}

// A setup by a version that knew fewer events is completed: each event has one hook of ours, what
// the user wrote stays, and an undo removes all of it.
func TestSetupOfAnOlderVersion(t *testing.T) {
	const mine = `{"hooks": [{"type": "command", "command": "notify-send done"}]}`
	ours := func(a Agent, program string) string {
		return `{"hooks": [{"type": "command", "command": "` + program + " hook " + a.Name + `"}]}`
	}
	for _, a := range Agents {
		if a.plugin != "" {
			continue
		}
		last := a.events[len(a.events)-1]
		text := `{"hooks": {"SessionStart": [` + ours(a, "/old/lineage") + `], "` + last + `": [` + ours(a, "/old/lineage") + `, ` + mine + `]}}`
		dir, path := home(t, a, text)
		apply(t, a, dir, false)
		after := require.ReadFile(t, path)
		if n := strings.Count(string(after), "exec /usr/local/bin/lineage hook "+a.Name); n != len(a.events) || strings.Contains(string(after), "/old/") ||
			!strings.Contains(string(after), "notify-send") {
			t.Errorf("%s: %d hooks:\n%s", a.Name, n, after)
		}
		for _, event := range a.events {
			require.Contains(t, string(after), `"`+event+`"`)
		}
		apply(t, a, dir, true)
		if after, err := os.ReadFile(path); err != nil || strings.Contains(string(after), "lineage") || !strings.Contains(string(after), "notify-send") {
			t.Errorf("%s: %v\n%s", a.Name, err, after)
		}
	}
}

// A missing file is made, readable by the user alone. Undo removes the file if nothing else is in it.
func TestNoFile(t *testing.T) {
	for _, a := range Agents {
		dir := t.TempDir()
		c := apply(t, a, dir, false)
		if info, err := os.Stat(c.Path); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%s: %v %v", a.Name, info, err)
		}
		if d := c.Diff(); !strings.Contains(d, "--- /dev/null") || !strings.Contains(d, "lineage") {
			t.Errorf("%s: %s", a.Name, d)
		}
		apply(t, a, dir, true)
		if _, err := os.Stat(c.Path); !os.IsNotExist(err) {
			t.Errorf("%s: the file is left: %v", a.Name, err)
		}
	}
}

// Without comments the file stays standard JSON, wherever our hooks are.
func TestStandard(t *testing.T) {
	claude := Agents[0]
	for _, text := range []string{
		`{"a": 1, "hooks": {"Stop": [{"hooks": [{"command": "lineage hook claude-code"}]}]}}`,
		`{"hooks": {"Stop": [{"hooks": [{"command": "mine"}]}, {"hooks": [{"command": "/x/lineage hook claude-code"}]}], "X": []}, "a": 1}`,
		`{"hooks": {"X": [], "Stop": [{"hooks": [{"command": "lineage hook claude-code"}]} , {"hooks": [{"command": "mine"}]}] } }`,
	} {
		dir, path := home(t, claude, text)
		for _, undo := range []bool{true, false, true} {
			apply(t, claude, dir, undo)
			after, err := os.ReadFile(path)
			if err != nil || !json.Valid(after) || undo && strings.Contains(string(after), "lineage") {
				t.Errorf("undo %v of %s: %v %s", undo, text, err, after)
			}
			if strings.Contains(text, "mine") != strings.Contains(string(after), "mine") {
				t.Errorf("the user's hook: %s", after)
			}
		}
	}
}

// Files that we may not change stay as they are.
func TestLeftAlone(t *testing.T) {
	claude, opencode := Agents[0], Agents[3]
	for _, tt := range []struct {
		name, text, want string
		agent            Agent
		spoil            func(path string) error
	}{
		{"invalid", `{"model": `, "invalid JSON", claude, nil},
		{"no object", `[1]`, "not a JSON object", claude, nil},
		{"hooks are a list", `{"hooks": []}`, `"hooks" is not an object`, claude, nil},
		{"event is an object", `{"hooks": {"Stop": {}}}`, `"Stop" is not an array`, claude, nil},
		{"hooks twice", `{"hooks": {}, "hooks": {}}`, "there twice", claude, nil},
		{"foreign plugin", "export const Mine = 1\n", "not written by lineage setup", opencode, nil},
		{"symbolic link", "{}", "symbolic link", claude, func(path string) error {
			return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path))
		}},
		{"hard link", "{}", "2 hard links", claude, func(path string) error { return os.Link(path, path+".other") }},
		{"directory", "{}", "not a regular file", claude, func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) }},
		{"deep lists", strings.Repeat("[", 900<<10), "more than 50000 objects and lists", claude, nil},
		{"deep hooks", `{"hooks": ` + strings.Repeat(`{"a": `, 100_000), "more than 50000 objects and lists", claude, nil},
		{"large", "{}", "larger than 1 MiB", claude, func(path string) error { return os.Truncate(path, mostBytes+1) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, path := home(t, tt.agent, tt.text)
			if tt.spoil != nil {
				require.NoError(t, tt.spoil(path))
			}
			for _, undo := range []bool{false, true} {
				if _, err := tt.agent.Plan(dir, noEnv, "/usr/bin/lineage", undo, false); err == nil ||
					!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("undo %v: %v, want %q", undo, err, tt.want)
				}
			}
			if tt.spoil == nil {
				if text, err := os.ReadFile(path); err != nil || string(text) != tt.text {
					t.Errorf("%v %q", err, text)
				}
			}
		})
	}
	t.Run("of another user", func(t *testing.T) {
		require.Root(t)
		dir, path := home(t, claude, "{}")
		require.NoError(t, os.Chown(path, 65534, 65534))
		_, err := claude.Plan(dir, noEnv, "/usr/bin/lineage", false, false)
		require.Contains(t, fmt.Sprint(err), "belongs to uid 65534")
	})
	t.Run("changed meanwhile", func(t *testing.T) {
		dir, path := home(t, claude, "{}")
		c, err := claude.Plan(dir, noEnv, "/usr/bin/lineage", false, false)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte(`{"a": 1}`), 0o644))
		require.Contains(t, fmt.Sprint(c.Write()), "changed meanwhile")
	})
}

// Comments next to removed values stay.
func TestCommentsStay(t *testing.T) {
	claude := Agents[0]
	dir, path := home(t, claude, `{
  "hooks": {
    // before ours
    "Stop": [
      // in the list
      {"hooks": [{"type": "command", "command": "lineage hook claude-code"}]} // behind ours
    ],
  }, // of hooks
  "model": "opus"
}
`)
	apply(t, claude, dir, true)
	text := require.ReadFile(t, path)
	if _, err := hujson.Parse(text); err != nil || strings.Contains(string(text), "lineage") {
		t.Errorf("%v: %s", err, text)
	}
	require.Contains(t, string(text), []string{"// before ours", "// in the list", "// behind ours", "// of hooks"}...)
}
