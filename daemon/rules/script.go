//go:build linux

package rules

import (
	"regexp"
	"strings"

	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// interpreters are the names of the files that "#!" lines name.
var interpreters = regexp.MustCompile(`^(node|nodejs|bun|deno|python[0-9.]*|pypy[0-9.]*|ruby[0-9.]*|perl[0-9.]*|(ba|da|z|k)?sh)$`)

// commLength is how much of a name the kernel keeps.
const commLength = 15

// script is the name under which the kernel saw the exec of a script that now runs: its
// interpreter has another comm since "#!/usr/bin/env" execed it, and got the script as
// a path after nothing but long options. "" if it runs no script.
func script(f *policy.Facts) string {
	if f == nil || !interpreters.MatchString(procfs.Base(f.Exe)) {
		return ""
	}
	for _, word := range f.Argv[min(1, len(f.Argv)):] {
		switch {
		case strings.HasPrefix(word, "--") && len(word) > 2:
		case strings.HasPrefix(word, "-") || !strings.Contains(word, "/"):
			return "" // this may be a program's text, or a module
		default:
			name := word[strings.LastIndexByte(word, '/')+1:]
			return name[:min(len(name), commLength)]
		}
	}
	return ""
}

// RanAs returns the agent rule that matches a running process by its comm, or by that
// of the script that it runs.
func RanAs(p *policy.Policy, f *policy.Facts) *policy.Agent {
	if r := p.Agent(f); r != nil {
		return r
	}
	name := script(f)
	if name == "" {
		return nil
	}
	as := *f
	as.Comm = name
	return p.Agent(&as)
}
