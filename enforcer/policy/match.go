package policy

import (
	"slices"
	"strconv"
)

// Facts are what is known of a process. An empty field is unknown, and a rule that
// needs it does not match: unknown facts are never a reason to act.
type Facts struct {
	Comm   string
	Exe    string
	Argv   []string
	UID    *uint32
	User   string // the name of UID
	Cgroup string
	Parent *Facts // the creator
}

// Matches reports whether all keys of m hold for f.
func (m *Match) Matches(f *Facts) bool {
	if f == nil {
		return false
	}
	glob := func(globs []Glob, path string) bool {
		return len(globs) == 0 || path != "" && slices.ContainsFunc(globs, func(g Glob) bool { return g.re.MatchString(path) })
	}
	if len(m.Comm) > 0 && !slices.Contains(m.Comm, f.Comm) || !glob(m.Exe, f.Exe) || !glob(m.Cgroup, f.Cgroup) {
		return false
	}
	if len(m.Argv) > 0 && !slices.ContainsFunc(m.Argv, func(p Pattern) bool { return slices.ContainsFunc(f.Argv, p.re.MatchString) }) {
		return false
	}
	if len(m.UID) > 0 && !slices.ContainsFunc(m.UID, f.is) {
		return false
	}
	return m.Parent == nil || m.Parent.Matches(f.Parent)
}

// is reports whether the process runs as user, a name or a number.
func (f *Facts) is(user string) bool {
	if n, err := strconv.ParseUint(user, 10, 32); err == nil {
		return f.UID != nil && *f.UID == uint32(n)
	}
	return f.User != "" && f.User == user
}

// Rule names a rule that matches.
type Rule struct {
	Key    string // protect.sshd
	Reason string
	Origin string
}

// Protected returns the rules of the protect list that match a process. They prevent
// that an outsider is adopted or signalled on weak evidence; they do not shield a
// member that a session forked.
func (p *Policy) Protected(f *Facts) (rules []Rule) {
	for i := range p.Protect {
		r := &p.Protect[i]
		if r.Match.Matches(f) {
			rules = append(rules, Rule{join("protect", r.Name), r.Reason, p.origin(r.from)})
		}
	}
	return rules
}
