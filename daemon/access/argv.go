//go:build linux

package access

// Sight is how much of a command line a caller gets.
type Sight uint8

const (
	Nothing  Sight = iota
	Redacted       // without the secrets that the policy finds
	Whole
)

// Sees is the only place that decides how much c gets of the command lines of a user's
// processes. Operators that signed a command see what the group sees. The group reads every session, and the kernel lets every user of the host
// read /proc/PID/cmdline. Inside a session the group does not count: an agent that an
// operator of the group started does not have the operator's rights.
func (c Caller) Sees(uid uint32) Sight {
	switch {
	case c.UID == uid || c.Root():
		return Whole
	case (c.Group || c.Signed != nil) && c.Member == 0 && c.Redact != nil:
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
		if c.owed != nil && c.owed.reading {
			return c.owed.later(argv)
		}
		return c.Redact(argv)
	}
	return nil
}

// RedactAfter runs read while others wait for it, as for the registry. Redacting one command
// line of 4 KiB takes 1.5 ms. So the command lines that Argv returns meanwhile are blank, and
// filled in when read has returned.
func (c Caller) RedactAfter(read func() error) error {
	if c.owed == nil || c.owed.reading {
		return read()
	}
	c.owed.reading = true
	defer c.settle()
	return read()
}

// owed are the command lines that are still to be redacted, in the order in which they were returned.
type owed struct {
	reading      bool
	given, whole [][]string
}

func (o *owed) later(argv []string) []string {
	if len(argv) == 0 {
		return argv
	}
	blank := make([]string, len(argv))
	o.given, o.whole = append(o.given, blank), append(o.whole, argv)
	return blank
}

func (c Caller) settle() {
	for i, blank := range c.owed.given {
		copy(blank, c.Redact(c.owed.whole[i]))
	}
	*c.owed = owed{}
}
