//go:build linux

package rules

import (
	"strings"
	"sync"

	"github.com/lineage-ebpf/lineage/enforcer/policy"
)

// maxRedacted bounds the command lines whose redaction is remembered.
const maxRedacted = 4096

// redacted remembers command lines without their secrets, because most command lines come
// again: to the history, and to each reader that gets them redacted.
type redacted struct {
	mu    sync.Mutex
	by    *policy.Policy
	known map[string][]string
}

// Redact hides secrets in a command line, as the policy in force says. The result is
// shared and must not be changed.
func (r *Policy) Redact(argv []string) []string {
	if len(argv) == 0 {
		return argv
	}
	p, key := r.Policy(), strings.Join(argv, "\x00")
	m := &r.redacted
	m.mu.Lock()
	hidden, ok := m.known[key]
	ok = ok && m.by == p
	m.mu.Unlock()
	if ok {
		return hidden
	}
	hidden = p.Redact(argv)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by != p || len(m.known) >= maxRedacted {
		m.by, m.known = p, make(map[string][]string)
	}
	m.known[key] = hidden
	return hidden
}
