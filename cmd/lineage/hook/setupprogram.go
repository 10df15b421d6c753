package hook

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

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
		if script >= 0 && slices.ContainsFunc(files, interprets) {
			files = append(files, words[script])
		}
	}
	return p.Comm == a.Command || slices.ContainsFunc(files, a.has)
}

func interprets(file string) bool { return slices.Contains(interpreters, filepath.Base(file)) }

// has reports whether a file is the agent's, by its path.
func (a Agent) has(file string) bool {
	return strings.TrimSuffix(filepath.Base(file), ".exe") == a.Command ||
		slices.ContainsFunc(a.below, func(dir string) bool { return strings.Contains(file, dir) })
}
