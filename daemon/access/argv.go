//go:build linux

package access

// Sight is how much of a command line a caller gets.
type Sight uint8

const (
	Nothing  Sight = iota
	Redacted       // without the secrets that the policy finds
	Whole
)

// Sees is the only place that says how much c gets of the command lines of a user's
// processes. The group reads every session, and the kernel lets every user of the host
// read /proc/PID/cmdline. Inside a session the group counts for nothing: an agent that
// an operator of the group started is not that operator.
func (c Caller) Sees(uid uint32) Sight {
	switch {
	case c.UID == uid || c.Root():
		return Whole
	case c.Group && c.Member == 0 && c.Redact != nil:
		return Redacted
	}
	return Nothing
}

// Argv is the command line of a user's process as c gets it.
func (c Caller) Argv(uid uint32, argv []string) []string {
	switch c.Sees(uid) {
	case Whole:
		return argv
	case Redacted:
		return c.Redact(argv)
	}
	return nil
}
