package hook

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/lineage-ebpf/lineage/api"
)

type Agent struct {
	Name    string
	Command string   // what people type, and the name of its program
	below   []string // directories of its package: a program in one of them has another name
	dir     string   // of its configuration, below the user's home
	dirEnv  string   // the variable that names another directory
	file    string   // in that directory
	events  []string // of a JSON file
	plugin  string   // the whole file, if it is a program
	next    string   // what the user has to do then
}

var Agents = []Agent{
	{
		Name:    "claude-code",
		Command: "claude",
		below:   []string{"/claude/versions/", "/@anthropic-ai/claude-"},
		dir:     ".claude",
		dirEnv:  "CLAUDE_CONFIG_DIR",
		file:    "settings.json",
		events: []string{"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse",
			"PostToolUseFailure", "PermissionDenied", "Stop"},
	},
	{
		Name:    "codex",
		Command: "codex",
		below:   []string{"/@openai/codex"},
		dir:     ".codex",
		dirEnv:  "CODEX_HOME",
		file:    "hooks.json",
		next:    "; codex does not run these hooks until you trust them: it asks on a terminal, or: /hooks. codex exec does not ask, and is not tracked until then",
		events:  []string{"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"},
	},
	{Name: "gemini-cli", Command: "gemini", below: []string{"/@google/gemini-cli/"},
		dir: ".gemini", file: "settings.json",
		events: []string{"SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent"}},
	{Name: "opencode", Command: "opencode", below: []string{"/opencode-ai/"},
		dir: ".config/opencode", file: "plugins/lineage.js", plugin: plugin},
}

// Find is the agent of that name, or that command. Of another agent its name is the command.
func Find(name string) (Agent, bool) {
	i := slices.IndexFunc(Agents, func(a Agent) bool { return a.Name == name || a.Command == name })
	if i < 0 {
		return Agent{Name: name, Command: name}, false
	}
	return Agents[i], true
}

// A Change is what a setup, or its undo, would write.
type Change struct {
	Path          string
	before, after []byte // nil: the file does not exist
	Next          string // what the user has to do then, after "written"
}

// Plan reads an agent's file and plans the change. program is the path of lineage. The file may
// be behind a symbolic link only if the change is shown, not written. An error says why the file
// is left alone.
func (a Agent) Plan(home string, env func(string) string, program string, undo, shown bool) (*Change, error) {
	dir := filepath.Join(home, a.dir)
	if a.dirEnv != "" && filepath.IsAbs(env(a.dirEnv)) {
		dir = env(a.dirEnv)
	}
	c := &Change{Path: filepath.Join(dir, a.file)}
	real, broken := filepath.EvalSymlinks(c.Path)
	if shown && broken == nil {
		c.Path = real
	}
	var err error
	if c.before, err = read(c.Path); errors.Is(err, errLink) && broken == nil {
		err = fmt.Errorf("%w; to change the file that it leads to: lineage setup %s --print | patch %s",
			err, a.Name, real)
	}
	if err != nil {
		return nil, err
	}
	if a.plugin != "" {
		c.after, err = a.replacePlugin(c.before, program, undo)
	} else {
		c.after, err = a.merge(c.before, program, undo)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Path, err)
	}
	if !undo {
		c.Next = a.next
	}
	return c, nil
}

func (c *Change) Empty() bool {
	return bytes.Equal(c.before, c.after) && (c.before == nil) == (c.after == nil)
}

func (c *Change) Diff() string {
	from, to := c.Path, c.Path
	if c.before == nil {
		from = "/dev/null"
	}
	if c.after == nil {
		to = "/dev/null"
	}
	return udiff.Unified(from, to, string(c.before), string(c.after))
}

// interpreters run agents that are scripts.
var interpreters = []string{"node", "nodejs", "bun", "deno", "python", "python3"}

// Runs reports whether a process runs a program of the agent's. The comm is a script's name, if
// the script was started by it. An update removes the file of an agent that runs.
func (a Agent) Runs(p *api.Process) bool {
	files := []string{strings.TrimSuffix(p.Exe, " (deleted)")}
	if len(p.Argv) > 0 {
		files = append(files, p.Argv[0])
		words := p.Argv[1:]
		script := slices.IndexFunc(words, func(w string) bool { return !strings.HasPrefix(w, "-") })
		if script >= 0 && slices.ContainsFunc(files,
			func(f string) bool { return slices.Contains(interpreters, filepath.Base(f)) }) {
			files = append(files, words[script])
		}
	}
	return p.Comm == a.Command || slices.ContainsFunc(files, a.has)
}

// has reports whether a file is the agent's, by its path.
func (a Agent) has(file string) bool {
	return strings.TrimSuffix(filepath.Base(file), ".exe") == a.Command ||
		slices.ContainsFunc(a.below, func(dir string) bool { return strings.Contains(file, dir) })
}
