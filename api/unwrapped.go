package api

import (
	"slices"
	"strings"
)

// wrappers are what coding agents put around the command of a tool call: a mark of it, and what is before and after
// the command in the text that they give to a shell.
var wrappers = [...]struct{ mark, before, after string }{
	{"/shell-snapshots/snapshot-", " && eval ", " < /dev/null"}, // claude-code; the command is quoted
	{"_bgpids_file=", "' EXIT\n", "\n)\n__code="},               // gemini-cli
}

// Unwrapped is a command line for people: that of an agent's shell has the command of the tool call behind "…", and not
// several hundred bytes of the agent's own before it. Any other is argv itself.
func Unwrapped(argv []string) []string {
	last := len(argv) - 1
	if last < 2 || !strings.HasPrefix(argv[last-1], "-") {
		return argv
	}
	for _, w := range wrappers {
		_, command, found := strings.Cut(argv[last], w.before)
		if !found || !strings.Contains(argv[last], w.mark) {
			continue
		}
		if end := strings.LastIndex(command, w.after); end >= 0 {
			command = command[:end]
		}
		if quoted, is := strings.CutPrefix(command, "'"); is {
			command = strings.NewReplacer(`'\''`, "'", `'"'"'`, "'").Replace(strings.TrimSuffix(quoted, "'"))
		}
		return append(slices.Clone(argv[:last]), "… "+command)
	}
	return argv
}
