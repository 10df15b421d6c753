//go:build linux

package history

import (
	"slices"
	"strings"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
)

// maxSecrets bounds the command lines whose redaction is remembered.
const maxSecrets = 4096

// redactor hides secrets in command lines.
type redactor struct {
	policy  func() *policy.Policy
	secrets map[string][]string // redacted command lines
	by      *policy.Policy      // that redacted them
}

// redact hides secrets in a command line. It remembers what it did: most
// command lines come again.
func (r *redactor) redact(argv []string) []string {
	if len(argv) == 0 {
		return argv
	}
	p := r.policy()
	if p != r.by || len(r.secrets) >= maxSecrets {
		r.by, r.secrets = p, make(map[string][]string)
	}
	key := strings.Join(argv, "\x00")
	if known, ok := r.secrets[key]; ok {
		return known
	}
	hidden := p.Redact(argv)
	r.secrets[key] = hidden
	return hidden
}

// hushed is a copy of brokered work without secrets.
func hushed(all []api.Brokered, redact func([]string) []string) []api.Brokered {
	out := slices.Clone(all)
	for i := range out {
		if out[i].Asked != nil {
			asked := *out[i].Asked
			asked.Argv = redact(asked.Argv)
			out[i].Asked = &asked
		}
	}
	return out
}
