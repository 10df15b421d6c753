package policy

// Operator says what the holder of a key may order in commands that are signed with it.
type Operator struct {
	Name       string     `key:"name" form:"text" need:"1" doc:"as in the operators file, such as alice@example.org"`
	Verbs      []string   `key:"verbs" one:"end|halt" list:"any" need:"1" doc:"what signed commands may do; halt only without users and sessions, since it concerns the whole host"`
	Users      []string   `key:"users" form:"user" list:"any" doc:"only to sessions of these users, names or numbers"`
	Sessions   []NameGlob `key:"sessions" list:"any" doc:"only to sessions whose names match, globs; any user can choose a name for a session of its own"`
	Signatures int        `key:"signatures" min:"1" max:"8" doc:"how many operators must sign"`

	placed
}

// Names reports whether the rights are about a session of that name, which may be empty.
func (r *Operator) Names(session string) bool {
	return anyOf(r.Sessions, session)
}
