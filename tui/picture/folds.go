package picture

import (
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
)

// mostFolds limits how many names Folds returns.
const mostFolds = 1000

// Folds names the folded rows of the picture, for SetFolds of another one. Groups
// are left out: they are folded anyway.
func (p *Picture) Folds() (names []string) {
	for k := range p.turned {
		switch {
		case k.Group != 0 || len(names) == mostFolds:
		case k.Session != "" && p.sessions[k.Session] != nil:
			names = append(names, k.Session)
		case p.processes[k.Process] != nil:
			names = append(names, k.Process.String())
		}
	}
	slices.Sort(names)
	return names
}

// SetFolds folds rows that are not in the picture yet.
func (p *Picture) SetFolds(names []string) {
	for _, name := range names[:min(len(names), mostFolds)] {
		if !strings.Contains(name, "@") {
			p.turned[Key{Session: name}] = true
		} else if ref, err := api.ParseRef(name); err == nil {
			p.turned[Key{Process: ref}] = true
		}
	}
}

// foldSessions folds or unfolds all sessions. Folds does not change.
func (p *Picture) foldSessions(folded bool) {
	for _, r := range p.sessions {
		r.folded = folded
	}
}
