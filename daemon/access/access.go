//go:build linux

package access

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os/user"
	"strconv"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

// Kernel is what access asks the kernel about a caller.
type Kernel interface {
	Identify(pid uint32) (tracer.Identity, error)
	Lookup(pid uint32) (tracer.Entry, error)
}

// Options are what an [Access] depends on.
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
	refusals *Refusals

	mu      sync.Mutex
	refused map[string]uint64 // by verb
}

// New makes the access of one daemon.
func New(o Options) *Access {
	return &Access{
		o: o, conns: newConns(o.Limits, o.Clock), refusals: NewRefusals(o.Audit, o.Clock),
		refused: make(map[string]uint64),
	}
}

// Group is the gid of [ReadGroup], -1 if the host has no such group.
func Group() int {
	if g, err := user.LookupGroup(ReadGroup); err == nil {
		if gid, err := strconv.Atoi(g.Gid); err == nil {
			return gid
		}
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
		return nil, api.NewError(api.CodeTooMany, fmt.Sprintf("too many large replies to uid %d at once", c.UID), "read them, or ask again in a second")
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
