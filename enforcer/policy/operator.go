package policy

import (
	"slices"
	"strconv"
)

// Operator says what the holder of a key may order in commands that are signed with it.
type Operator struct {
	Name       string     `key:"name" form:"text" need:"1" doc:"as in the operators file, such as alice@example.org"`
	Verbs      []string   `key:"verbs" one:"end" list:"any" need:"1" doc:"what signed commands may do"`
	Users      []string   `key:"users" form:"user" list:"any" doc:"only to sessions of these users, names or numbers"`
	Sessions   []NameGlob `key:"sessions" list:"any" doc:"only to sessions whose names match, globs; any user can choose a name for a session of its own"`
	Signatures int        `key:"signatures" min:"1" max:"8" doc:"how many operators must sign; default 1"`

	placed
}

func (r *Operator) label() string { return r.Name }

// Covers reports whether the rights are about a session of that user and name. user is the user's
// name, or empty.
func (r *Operator) Covers(uid uint32, user, session string) bool {
	of := func(u string) bool { return u == user || u == strconv.FormatUint(uint64(uid), 10) }
	named := func(g NameGlob) bool { return session != "" && g.re.MatchString(session) }
	return (len(r.Users) == 0 || slices.ContainsFunc(r.Users, of)) &&
		(len(r.Sessions) == 0 || slices.ContainsFunc(r.Sessions, named))
}
