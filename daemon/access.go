//go:build linux

package daemon

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/tracer"
)

// verb is what a caller wants to do, as far as access goes.
type verb uint8

const (
	verbHello   verb = iota // version and status
	verbRead                // anything that tells of a session or a process
	verbCreate              // a session of the caller's own child
	verbAdopt               // a session of a process that runs
	verbKeep                // hand a member over to a session that outlives its own
	verbEnd                 // end a session
	verbKill                // signal one member
	verbManage              // the daemon itself
	verbMetrics             // the figures of the whole host
)

func (v verb) String() string {
	return [...]string{"hello", "read", "create", "adopt", "keep", "end", "kill", "manage", "metrics"}[v]
}

// caller is who asks, judged anew for each request.
type caller struct {
	uid    uint32
	id     tracer.Identity
	comm   string
	group  bool             // is in the group lineage
	member tracer.SessionID // 0: an operator
	// lost: the process that connected cannot be identified any more, so
	// whether it is a member is unknown.
	lost bool
	// foreign: it lives in another PID namespace, its PIDs mean nothing here.
	foreign bool
}

// MayReadArgv reports whether c may see the command lines of a user's processes.
func (c caller) MayReadArgv(uid uint32) bool {
	return c.uid == uid || c.uid == 0 && c.member == 0
}

// relation is where a target stands to the caller's own session.
type relation uint8

const (
	stranger relation = iota
	own               // it is the caller's session, or a process of it
	nested            // … of a session nested in the caller's
)

// target is what a verb is about. For verbs without one it is the zero value.
type target struct {
	uid      uint32 // of the session; of the process if it belongs to none
	relation relation
}

// decision is the answer, with the reason and what to do about it.
type decision struct {
	allow     bool
	why, hint string
}

// decide is the only place that says who may do what. Membership comes first
// and only narrows, root included: an agent runs as its operator's own uid,
// and what became root inside a session is still inside.
func decide(c caller, v verb, t target) decision {
	yes := decision{allow: true}
	if v == verbHello {
		return yes
	}
	if c.lost {
		return decision{why: "the process that connected is gone, so nothing is known of its session"}
	}
	if c.member != 0 {
		return decideMember(c, v, t)
	}
	if c.uid == 0 {
		return yes
	}
	switch v {
	case verbCreate, verbAdopt: // whose processes, is looked at apart
		return yes
	case verbMetrics:
		if c.group {
			return yes
		}
		return decision{why: "only root and the group " + readGroup + " may", hint: "run with sudo"}
	case verbRead:
		if c.group || t.uid == c.uid {
			return yes
		}
		return decision{why: fmt.Sprintf("it belongs to uid %d", t.uid), hint: "run with sudo"}
	case verbEnd, verbKill, verbKeep:
		if t.uid == c.uid {
			return yes
		}
		return decision{why: fmt.Sprintf("it belongs to uid %d", t.uid), hint: "run with sudo"}
	}
	return decision{why: "only root may", hint: "run with sudo"}
}

func decideMember(c caller, v verb, t target) decision {
	switch {
	case v == verbCreate, // it will be nested
		v == verbRead && t.relation != stranger,
		(v == verbEnd || v == verbKill) && t.relation == nested:
		return decision{allow: true}
	case (v == verbEnd || v == verbKill) && t.relation == own:
		return decision{why: "the caller is a member of it", hint: "run it from outside the session"}
	}
	return decision{
		why:  fmt.Sprintf("the caller is a member of session %v", c.member),
		hint: "run it from outside the session",
	}
}
