//go:build linux

package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// Kernel is what access asks the kernel about a caller.
type Kernel interface {
	Identify(pid uint32) (tracer.Identity, error)
	Lookup(pid uint32) (tracer.Entry, error)
}

type Options struct {
	Kernel Kernel
	Proc   procfs.FS
	Group  int                          // gid of [ReadGroup], -1: the host has none
	Peer   func(net.Conn) (Peer, error) // [PeerOf]
	Clock  func() time.Duration         // monotonic
	Limits Limits
	Audit  func(AuditRecord)
	Mode   func() string                // of the policy, for the audit log
	Redact func(argv []string) []string // by the policy in force
	Log    zerolog.Logger
}

// Access knows the connections and the refusals. It may be used from any goroutine.
type Access struct {
	o        Options
	conns    *conns
	refusals *refusals

	mu      sync.Mutex
	refused map[string]uint64 // by verb
}

func New(o Options) *Access {
	return &Access{
		o: o, conns: newConns(o.Limits, o.Clock), refusals: newRefusals(o.Audit, o.Clock),
		refused: make(map[string]uint64),
	}
}

// Group is the gid of [ReadGroup], -1 if the host has no such group.
func Group() int {
	if gid, err := system.GroupID(ReadGroup); err == nil {
		return gid
	}
	return -1
}

// Admit returns the caller as it is now, and refuses a caller that asks too much.
func (a *Access) Admit(conn *Connection) (Caller, error) {
	if conn.over {
		return Caller{}, api.NewError(api.CodeTooMany, "too many connections", "close some")
	}
	c := a.judge(conn)
	if !a.conns.allow(c, a.o.Clock()) {
		a.count(verbLimit)
		of := fmt.Sprintf("uid %d", c.UID)
		if c.Member != 0 {
			of = fmt.Sprintf("session %v", c.Member)
		}
		return c, api.NewError(api.CodeTooMany, "too many requests of "+of, "ask again in a second")
	}
	return c, nil
}

// largeWait is how long a request waits while others of its caller get large replies.
const largeWait = 3 * time.Second

// Turn waits until the caller may get a reply of any size, which is in memory until done
// is called.
func (a *Access) Turn(ctx context.Context, c Caller) (done func(), err error) {
	if c.UID == 0 && c.Member == 0 {
		return func() {}, nil
	}
	waiting, cancel := context.WithTimeout(ctx, largeWait)
	defer cancel()
	if done, err = a.conns.turn(waiting, c); err != nil {
		a.count(verbLimit)
		return nil, api.NewError(api.CodeTooMany, fmt.Sprintf("too many large replies to uid %d at once", c.UID),
			"read them, or ask again in a second")
	}
	return done, nil
}

// verbLimit counts requests and connections over a limit, whatever they asked for.
const verbLimit = "limit"

func (a *Access) count(verb string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused[verb]++
}

// RefusedSoFar gives the number of refusals by verb.
func (a *Access) RefusedSoFar() map[string]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.refused)
}

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

func (c Caller) Audited() *AuditCaller {
	a := &AuditCaller{UID: int(c.UID), PID: int(c.ID.PID), StartNS: api.U64(c.ID.Start)}
	if c.Member != 0 {
		a.Session = c.Member.String()
	}
	if c.Signed != nil {
		a.Command, a.Operators = c.Signed.Command, c.Signed.Operators
	}
	return a
}

func (c Caller) MarshalZerologObject(e *zerolog.Event) {
	e.Uint32(system.KeyUID, c.UID).Uint32(system.KeyPID, c.ID.PID)
}

// Refuse is the error of a decision against a caller, recorded. what names the target in the caller's words.
func (a *Access) Refuse(c Caller, v Verb, what string, d Decision) error {
	a.Refused(c, v, what, d.Why)
	if what != "" {
		what = " " + what
	}
	return api.NewError(api.CodeDenied, fmt.Sprintf("%v%s: not permitted: %s", v, what, d.Why), d.Hint)
}

// Hide records a refusal about a session that c may not read, and returns the error of none: names and ids are for readers
// only. It was recorded if Hide has returned none before.
func (a *Access) Hide(c Caller, v Verb, what string, d Decision, none error) error {
	if errors.Is(none, errHidden) {
		return none
	}
	_ = a.Refuse(c, v, what, d)
	return fmt.Errorf("%w%w", none, errHidden)
}

var errHidden = errors.New("")

// Refused records a refusal in the log and in the audit log.
func (a *Access) Refused(c Caller, v Verb, what, why string) {
	e := a.o.Log.Warn().Str(system.KeyVerb, v.String()).
		Str(system.KeyName, what).Str(system.KeyWhy, why).EmbedObject(c)
	if c.Member != 0 {
		e = e.Str(system.KeyMember, c.Member.String())
	}
	e.Msg("refused")
	a.count(v.String())
	a.refusals.Add(a.record(c, v, AuditRefused, why, &AuditTarget{Session: what}))
}

// Done records a verb that changed something and is not an end: of a session, or of one
// of its processes.
func (a *Access) Done(c Caller, v Verb, result, session string, ref api.Ref) {
	a.o.Audit(a.record(c, v, AuditDone, result,
		&AuditTarget{Session: session, PID: ref.PID, StartNS: ref.StartNS}))
}

// Did records a verb that is about no one session: the daemon, or a signed command.
func (a *Access) Did(c Caller, v Verb, what string) {
	a.o.Audit(a.record(c, v, AuditDone, what, nil))
}

// Unsignalled records that a signal was not sent, and returns why.
func (a *Access) Unsignalled(c Caller, session string, ref api.Ref, why error) error {
	a.count(Kill.String())
	a.refusals.Add(a.record(c, Kill, AuditRefused, why.Error(),
		&AuditTarget{Session: session, PID: ref.PID, StartNS: ref.StartNS}))
	return why
}

func (a *Access) record(c Caller, v Verb, decision, reason string, t *AuditTarget) AuditRecord {
	return AuditRecord{
		Time: time.Now().UTC(), Verb: v.String(), Decision: decision, Reason: reason,
		Caller: c.Audited(), Target: t, Mode: a.o.Mode(),
	}
}

// Flush writes the refusals that were only counted so far.
func (a *Access) Flush() { a.refusals.Flush() }
