package policy

import (
	"slices"
	"strconv"
)

// Facts are what is known of a process. An empty field is unknown, and a rule that
// needs it does not match: unknown facts are never a reason to act.
type Facts struct {
	Comm string
	// Exe is a path that the process may have chosen: the text of a link, or of the event
	// of an exec.
	Exe string
	// Runs is what the kernel says: whether the process executes the file at Exe, and
	// whether its user namespace is the initial one. nil: it has exited.
	Runs   func() (file, initial bool)
	Argv   []string
	UID    *uint32
	User   string // the name of UID
	Cgroup string
	Parent *Facts // the creator
}

// runs reports whether the process may match a rule by Exe. A rule that exempts
// processes from an end needs proof. An agent rule does not exempt, so the event of an
// exited process is enough.
func (f *Facts) runs(exempts bool) bool {
	if f.Runs == nil {
		return !exempts
	}
	file, initial := f.Runs()
	return file && (initial || !exempts)
}

// Unproven says why no rule that exempts processes matches Exe, whatever its glob; "" if
// one can.
func (f *Facts) Unproven() string {
	if f == nil || f.Runs == nil {
		return "the process has exited"
	}
	switch file, initial := f.Runs(); {
	case !file:
		return "the process does not execute the file that the daemon finds there"
	case !initial:
		return "the process is in a user namespace of its own"
	}
	return ""
}

// matches reports whether all keys of m hold for f; exempts is whether m is of a rule
// that exempts processes from an end.
func (m *Match) matches(f *Facts, exempts bool) bool {
	if f == nil {
		return false
	}
	if len(m.Comm) > 0 && !slices.Contains(m.Comm, f.Comm) || !anyOf(m.Exe, f.Exe) ||
		!anyOf(m.Cgroup, f.Cgroup) || !anyOf(m.Argv, f.Argv...) {
		return false
	}
	if len(m.UID) > 0 && !slices.ContainsFunc(m.UID, f.is) {
		return false
	}
	if m.Parent != nil && !m.Parent.matches(f.Parent, exempts) {
		return false
	}
	return len(m.Exe) == 0 || f.runs(exempts) // last: the kernel may have to look at all processes
}

// anyOf reports whether a rule has no patterns for a fact, or one of them matches one of its texts. An empty
// text is unknown.
func anyOf[P interface{ matches(string) bool }](patterns []P, texts ...string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(texts, func(text string) bool {
		return text != "" && slices.ContainsFunc(patterns, func(p P) bool { return p.matches(text) })
	})
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

// OnlyComm reports whether nothing but the comm decides.
func (m *Match) OnlyComm() bool {
	return len(m.Comm) > 0 && len(m.Exe) == 0 && len(m.Argv) == 0 && len(m.UID) == 0 &&
		len(m.Cgroup) == 0 && m.Parent == nil
}

// MayProtect reports whether a rule of the protect list names that comm.
func (p *Policy) MayProtect(comm string) bool {
	return slices.ContainsFunc(p.Protect,
		func(r Protection) bool { return slices.Contains(r.Match.Comm, comm) })
}

// Protected returns the rules of the protect list that match a process. They prevent
// that an outsider is adopted or signalled on weak evidence; they do not shield a
// member that a session forked.
func (p *Policy) Protected(f *Facts) (rules []Rule) {
	for i := range p.Protect {
		r := &p.Protect[i]
		if r.Match.matches(f, true) {
			rules = append(rules, Rule{join("protect", r.Name), r.Reason, p.origin(r.from)})
		}
	}
	return rules
}
