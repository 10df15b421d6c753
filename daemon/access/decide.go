//go:build linux

package access

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
)

// ReadGroup is the group whose members may read every session.
const ReadGroup = "lineage"

type Verb uint8

const (
	Hello   Verb = iota + 1 // version and status
	Read                    // anything about a session or a process
	Create                  // open a session over the caller's own child
	Adopt                   // open a session over a running process
	Keep                    // hand a member over to a session that outlives its own
	End                     // end a session
	Kill                    // signal one member
	Branch                  // end a member and all that it started
	Manage                  // the daemon itself
	Metrics                 // the figures of the whole host
	Mark                    // report something about the caller's own session
	Order                   // bring a command that operators have signed
	Halt                    // stop the agents of the host
	Pause                   // stop a session
	Resume                  // continue it
)

func (v Verb) String() string {
	return [...]string{"", "hello", "read", "create", "adopt", "keep", "end", "kill",
		"end branch", "manage", "metrics", "mark", "command", "halt", "pause", "resume"}[v]
}

// Caller is the process that asks, judged again for each request.
type Caller struct {
	UID    uint32
	ID     tracer.Identity
	Comm   string
	Group  bool             // is in the group [ReadGroup]
	Member tracer.SessionID // 0: an operator
	// Lost: the process that connected cannot be identified any longer, so whether it
	// is a member is unknown.
	Lost bool
	// Foreign: it lives in another PID namespace, its PIDs mean nothing here.
	Foreign bool
	// Unplaced is why its PID namespace cannot be read. Foreign is set, too.
	Unplaced error
	// Signed is the authority by which it asks, nil: its own.
	Signed *Signed
	// Redact hides the secrets of a command line. If nil, no redacted ones are shown.
	Redact func(argv []string) []string

	asked *Asked // nil: not recorded
	owed  *owed  // by [Caller.RedactAfter]; nil: Argv redacts at once
}

// Signed is the authority of operators who have signed a command. The caller that brings it has no
// part in it.
type Signed struct {
	Command   string   // its id
	Operators []string // by name
	May       func(v Verb, s Scope) Decision
}

// Asked records what [Decide] was asked about one caller.
type Asked struct{ verbs atomic.Uint32 }

func (a *Asked) About(v Verb) bool { return a.verbs.Load()&(1<<v) != 0 }

// Noting returns a copy of c, and a record of what Decide is asked about it from now on.
func (c Caller) Noting() (Caller, *Asked) {
	c.asked = new(Asked)
	return c, c.asked
}

// Root reports whether c is root and in no session: only Mark is refused to it, unless it is lost.
func (c Caller) Root() bool { return c.UID == 0 && c.Member == 0 }

func (c Caller) Document() *api.Caller {
	d := &api.Caller{UID: int(c.UID), PID: int(c.ID.PID), Comm: c.Comm}
	if c.Signed != nil {
		d.Command, d.Operators = c.Signed.Command, c.Signed.Operators
	}
	return d
}

// Scope is the scope of the caller's own session, or of its own processes.
func (c Caller) Scope() Scope { return Scope{UID: c.UID, Chain: []tracer.SessionID{c.Member}} }

// Scope is what a verb is about. For verbs that are about nothing it is the zero
// value.
type Scope struct {
	UID uint32 // of the session; of the process if it belongs to none
	// Chain is the session, then those that it is nested in, from the inside out.
	// Nil: no session.
	Chain []tracer.SessionID
	Name  string // of the session
}

func (s *Scope) Within(ancestor tracer.SessionID) bool { return slices.Contains(s.Chain, ancestor) }

// Decision is the answer, with the reason and what to do about it.
type Decision struct {
	Allow     bool
	Why, Hint string
}

// Decide is the only place that decides what a caller may do. Membership comes first
// and only narrows, root included: an agent runs as its operator's own uid, and a
// member that became root is still a member.
func Decide(c Caller, v Verb, s Scope) Decision {
	if c.asked != nil {
		c.asked.verbs.Or(1 << v)
	}
	yes := Decision{Allow: true}
	if v == Hello {
		return yes
	}
	if c.Lost {
		return Decision{Why: "the process that connected is gone, so nothing is known of its session"}
	}
	if c.Member != 0 {
		return decideMember(c, v, s)
	}
	if c.Signed != nil {
		return c.Signed.May(v, s)
	}
	if v == Mark {
		return Decision{Why: "the caller is not in a session"}
	}
	if c.UID == 0 {
		return yes
	}
	switch v {
	case Create, Adopt, Order: // the process, or the signature, is checked elsewhere
		return yes
	case Metrics:
		if c.Group {
			return yes
		}
		return Decision{Why: "only root and the group " + ReadGroup + " may", Hint: "run with sudo"}
	case Read, End, Pause, Resume, Kill, Branch, Keep:
		if s.UID == c.UID || v == Read && c.Group {
			return yes
		}
		return Decision{Why: fmt.Sprintf("it belongs to uid %d", s.UID), Hint: "run with sudo"}
	}
	return Decision{Why: "only root may", Hint: "run with sudo"}
}

func decideMember(c Caller, v Verb, s Scope) Decision {
	ends := v == End || v == Pause || v == Resume || v == Kill
	depth := slices.Index(s.Chain, c.Member) // -1: outside, 0: its own session, else nested in it
	switch {
	case v == Create, // it will be nested
		(v == Read || v == Branch) && depth >= 0,
		v == Mark && depth == 0,
		ends && depth > 0:
		return Decision{Allow: true}
	case ends && depth == 0:
		return Decision{Why: "the caller is a member of it", Hint: "run it from outside the session"}
	}
	return Decision{
		Why:  fmt.Sprintf("the caller is a member of session %v", c.Member),
		Hint: "run it from outside the session",
	}
}
