//go:build linux

package attribution

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/lineage-ebpf/lineage/daemon/broker"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// How many requests, and how many processes found for it, a session remembers. More are
// attributed as well, but not shown.
const (
	maxRequests = 64
	maxFound    = 256
	// maxMemory bounds those of all sessions together, in bytes. Users share it.
	maxMemory = 16 << 20
)

// settling is how long after its client exited a broker may take to begin.
const settling = 2 * time.Second

// request is what a member asked a broker for.
type request struct {
	broker.Request
	Client tracer.Identity
	Comm   string
	UID    uint32
	Argv   []string // the beginning, for display
	Cut    bool     `json:",omitempty"` // there is more of it
	Asked  uint64   // boottime of the client's exec
	Left   uint64   // … of its exit, 0: it lives
	Failed bool     // the client exited with an error
	Inside bool     // its server is a member
	Found  bool     // a process was found for it
}

// attributed is a process that was found to be brokered.
type attributed struct {
	Process tracer.Identity
	Comm    string
	Source  tracer.Source
	Asked   *request         // nil: no request was seen
	Session tracer.SessionID // that it was entered for
	Ends    bool             // with the session for which it works
	// Observed: it would end with it, if the policy were enforced.
	Observed bool   `json:",omitempty"`
	At       uint64 // boottime
	// Terminal: it has the token, but was started in a terminal. It stays so when that has been closed.
	Terminal bool `json:",omitempty"`
}

// brokered is what a session has handed to brokers.
type brokered struct {
	Requests []*request `json:"Errands"` // the name on disk
	Found    []attributed
	// Overflow: there was more than is remembered.
	Overflow bool
	// For is the session whose work this companion session holds, 0: it is not one.
	For tracer.SessionID
	// Weak: it holds it on evidence that may be a coincidence.
	Weak bool
	// Shared is the rule by which this one holds a server of several sessions. It is only
	// written for a restart: the rules keep it.
	Shared string
	// UIDs that its members are known to have had. Began: its root has executed a program.
	UIDs  []uint32
	Began bool

	token  [32]byte // sha256 of the session's
	booked int      // bytes
}

// size is roughly the memory of e.
func (e *request) size() int {
	return int(unsafe.Sizeof(*e)) + memory.ArgvSize(e.Argv) + len(e.Server) + len(e.Unit) + len(e.Container)
}

func (a *attributed) size() int { return int(unsafe.Sizeof(*a)) }

// room reports whether a session may remember that many bytes more, and books them.
func (a *Attribution) room(x *registry.Session, s *brokered, bytes int) bool {
	if !a.memory.Take(x.Info().UID, bytes) {
		return false
	}
	s.booked += bytes
	return true
}

// clone is for an encoder outside the registry's goroutine.
func (b *brokered) clone() brokered {
	c := *b
	c.Requests, c.Found = make([]*request, len(b.Requests)), slices.Clone(b.Found)
	c.UIDs = slices.Clone(b.UIDs)
	for i, e := range b.Requests {
		n := *e
		c.Requests[i] = &n
	}
	for i := range c.Found {
		if k := slices.Index(b.Requests, c.Found[i].Asked); k >= 0 {
			c.Found[i].Asked = c.Requests[k]
		}
	}
	return c
}

// within reports whether the broker may have begun the process for the request. Without
// an exact name, it must have begun soon after the request.
func (e *request) within(start uint64, named bool) bool {
	until := e.Asked + uint64(5*settling)
	if e.Left != 0 {
		until = min(until, e.Left+uint64(settling))
	}
	if named {
		until = e.Left + uint64(settling)
	}
	return start >= e.Asked && (start <= until || named && e.Left == 0)
}

// asks notes the request if the program is a broker's client.
func (a *Attribution) asks(v registry.View, x *registry.Session, ev *tracer.Event) {
	if !broker.IsClient(ev.Filename) || x.Closed() {
		return
	}
	argv := ev.Args()
	found, ok := broker.RequestOf(string(ev.Filename), argv)
	if !ok {
		return
	}
	s := a.of(x.ID())
	if found.Serves {
		a.serve(v, x, found.Kind, true)
		return
	}
	e := &request{Request: found, Client: ev.Process, Comm: ev.Comm.String(), UID: ev.UID, Asked: ev.Time, Inside: s.inside(&found)}
	e.Argv, e.Cut = memory.ShortArgv(argv)
	for _, name := range []*string{&e.Server, &e.Unit, &e.Container} {
		*name = strings.Clone(*name) // not a part of the whole command line
	}
	if len(s.Requests) == maxRequests || !a.room(x, s, e.size()) {
		s.Overflow = true
		return
	}
	s.Requests = append(s.Requests, e)
	v.Save(x)
	a.pollFaster()
}

// pollFaster requests a quick series of looks at the host.
func (a *Attribution) pollFaster() {
	select {
	case a.asked <- struct{}{}:
	default:
	}
}

// left notes that the client of a request has exited.
func (s *brokered) left(ev *tracer.Event) {
	for _, e := range s.Requests {
		if e.Client == ev.Process {
			code, signal := document.Exit(ev.ExitStatus)
			e.Left, e.Failed = ev.Time, !e.Kind.Relays && (signal != "" || *code != 0)
		}
	}
}

// found records a process that was attributed to a session.
func (a *Attribution) found(v registry.View, x *registry.Session, job attributed) {
	s := a.of(x.ID())
	if job.Asked != nil {
		job.Asked.Found = true
	}
	if len(s.Found) == maxFound || !a.room(x, s, job.size()) {
		s.Overflow = true
		return
	}
	s.Found = append(s.Found, job)
	v.Save(x)
	v.Changed(x.ID())
}

// forked notes that a client has forked. A client that starts its server because none
// runs does so: what that server starts is forked by the session.
func (s *brokered) forked(ev *tracer.Event) {
	for _, e := range s.Requests {
		if e.Kind.Forks && e.Client == ev.Creator {
			e.Inside = true
		}
	}
}

// serve notes whether the server for what a session asks is one of its members.
func (a *Attribution) serve(v registry.View, x *registry.Session, kind *broker.Kind, inside bool) {
	for _, e := range a.of(x.ID()).Requests {
		if e.Kind.Name == kind.Name && (e.Left == 0 || !inside) {
			e.Inside = inside
		}
	}
	v.Save(x)
}

// meetServers asks the kernel to what the sessions' clients of shared servers are connected: each one again when it is twice as old,
// as a user may have many, with many files.
func (a *Attribution) meetServers(all []claimant) {
	now := a.o.Clock.Boottime()
	for i := range all {
		for _, e := range all[i].requests {
			if !e.Kind.Shared || e.Left != 0 || bits.Len64(now-e.Asked) == bits.Len64(a.looked-e.Asked) {
				continue
			}
			sockets, _ := a.o.Sockets(e.Client.PID)
			for _, s := range sockets {
				if id, err := a.o.Kernel.Identify(e.Client.PID); err == nil && id == e.Client && s.Listener != 0 {
					a.connected(all[i].info.ID, s.Listener)
				}
			}
		}
	}
	a.looked = now
}

// connected lets a shared server leave the session that started it when a client in another one is connected to it: its end would
// take that client's work. It ends with the last session of its user. No rule allows that, but passing for a server gains a member
// nothing: a real one runs whatever the processes of the user ask, in the session of that server.
func (a *Attribution) connected(client tracer.SessionID, pid uint32) {
	argv, _ := broker.Argv(a.o.Proc, pid)
	server, ok := broker.RequestOf(procfs.Base(a.o.Proc.Link(pid, "exe")), argv)
	in, err := a.o.Kernel.Lookup(pid)
	if !ok || !server.Serves || err != nil {
		return
	}
	from, err := registry.Ask(a.o.Registry, func(v registry.View) (from tracer.SessionInfo) {
		x, of := v.Session(client), v.Session(in.Session)
		if x == nil {
			return from
		}
		a.serve(v, x, server.Kind, x == of)
		if of == nil || !of.Active() || of.Info().Kept || a.of(in.Session).For != 0 || of.Info().UID != x.Info().UID || in.Flags&tracer.FlagRoot != 0 ||
			v.Within(client, in.Session) || v.Within(in.Session, client) || of.Info().Rule != 0 && !a.o.Rules.Enforced(of.Info().UID) { // that one never ends
			return from
		}
		a.serve(v, of, server.Kind, false)
		return of.Info()
	})
	if err == nil && from.ID != 0 {
		a.o.Steward.Share(from, in.Identity, "", fmt.Sprintf("session %v is connected to it", client))
	}
}

// inside reports whether an earlier request started the server of this one.
func (s *brokered) inside(e *broker.Request) bool {
	return slices.ContainsFunc(s.Requests, func(o *request) bool {
		return o.Inside && o.Kind.Name == e.Kind.Name && o.Server == e.Server
	})
}
