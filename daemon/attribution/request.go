//go:build linux

package attribution

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/lookup"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// How many requests to brokers, how many to engines, and how many processes found for it, a session remembers. More are
// attributed as well, but not shown.
const (
	maxRequests = 64
	maxFound    = 256
	// maxMemory bounds those of all sessions together, in bytes. Users share it.
	maxMemory = 16 << 20
)

const (
	// settling is how long after its client exited a broker may take to begin, and after it was interrupted an engine.
	settling = 2 * time.Second
	// patience is how long after the request an engine may take to begin a command.
	patience = 30 * time.Second

	// interrupted is the least exit code that says that a client has caught a signal.
	interrupted = 128
)

// request is what a member asked a broker for, or a container's engine.
type request struct {
	lookup.BrokerRequest
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

	// Of a command in a container. Interrupted: a signal has ended the client, or the end of its session.
	Interrupted bool `json:",omitempty"`
	// Engine is the daemon that the client is connected to, zero: none was found.
	Engine tracer.Identity `json:",omitzero"`
	// Session is that of the command, with its root; 0: not found.
	Session tracer.SessionID `json:",omitempty"`
	Root    tracer.Identity  `json:",omitzero"`
	// Unsure: another request, or another command, fits too.
	Unsure bool `json:",omitempty"`
	// Brief: the command has left no record.
	Brief bool `json:",omitempty"`

	By tracer.SessionID `json:"-"` // the session that it belongs to
}

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

	command command
	token   [32]byte // sha256 of the session's
	booked  int      // bytes
}

// command is what is known of the command that a session holds, if it was put into a container.
type command struct {
	Requests []*request `json:",omitempty"` // the session's own, to engines: only on disk
	Began    bool       `json:",omitempty"`
	Command  string     `json:",omitempty"` // its sum, "" if it is not known
	// Asker is the session whose member certainly asked for it, 0: not known.
	Asker tracer.SessionID `json:",omitempty"`
	// Interrupted: its client has been, while the command ran.
	Interrupted bool `json:",omitempty"`
	// Detached: its client has left it on purpose, or was answered.
	Detached bool `json:",omitempty"`
	waits    bool // Interrupted, and no rule was found yet
}

// size is roughly the memory of e.
func (e *request) size() int {
	return int(unsafe.Sizeof(*e)) + memory.ArgvSize(e.Argv) + len(e.Server) +
		len(e.Unit) + len(e.Container) + len(e.Command)
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

// clone is for use outside the registry's goroutine. The requests to engines are those of its command.
func (b *brokered) clone() brokered {
	c := *b
	c.Requests, c.Found, c.UIDs = nil, slices.Clone(b.Found), slices.Clone(b.UIDs)
	for _, e := range b.Requests {
		n := new(*e)
		if e.Command != "" {
			c.command.Requests = append(c.command.Requests, n)
			continue
		}
		c.Requests = append(c.Requests, n)
		for i := range c.Found {
			if c.Found[i].Asked == e {
				c.Found[i].Asked = n
			}
		}
	}
	return c
}

// within reports whether a process that began at that boottime may have been begun for the request. A client waits for
// its command; without an exact name, a broker's process must have begun soon after the request.
func (e *request) within(start uint64, named bool) bool {
	until, after := e.Asked+uint64(5*settling), uint64(settling)
	if e.Command != "" {
		if until = e.Asked + uint64(patience); !e.Interrupted {
			after = 0
		}
	}
	switch {
	case named:
		until = e.Left + after
	case e.Left != 0:
		until = min(until, e.Left+after)
	}
	return start >= e.Asked && (start <= until || named && e.Left == 0)
}

// asks notes the request if the program is the client of a broker or an engine.
func (a *Attribution) asks(v registry.View, x *registry.Session, ev *tracer.Event) {
	if !lookup.IsBrokerClient(ev.Filename) || x.Closed() {
		return
	}
	argv := ev.Args()
	found, ok := lookup.BrokerRequestOf(string(ev.Filename), argv)
	if !ok || found.Command != "" && ev.ArgvTruncated {
		return
	}
	s := a.of(x.ID())
	if found.Serves {
		a.serve(v, x, found.Kind, true)
		return
	}
	e := &request{BrokerRequest: found, Client: ev.Process, Comm: ev.Comm.String(),
		UID: ev.UID, Asked: ev.Time, Inside: s.inside(&found)}
	e.Argv, e.Cut = memory.ShortArgv(argv)
	for _, name := range []*string{&e.Server, &e.Unit, &e.Container} {
		*name = strings.Clone(*name) // not a part of the whole command line
	}
	if !a.free(v, x, s, e) || !a.room(x, s, e.size()) {
		s.Overflow = s.Overflow || e.Command == ""
		return
	}
	s.Requests = append(s.Requests, e)
	v.Save(x)
	system.Offer(a.asked, struct{}{})
}

// free reports whether a session may remember one more request of that sort. It forgets the oldest one to an engine that
// is over.
func (a *Attribution) free(v registry.View, x *registry.Session, s *brokered, like *request) bool {
	n, over := 0, -1
	for i, e := range s.Requests {
		if (e.Command == "") != (like.Command == "") {
			continue
		}
		n++
		if command := v.Session(e.Session); over < 0 && e.Command != "" && e.Left != 0 && (command == nil ||
			command.Closed()) {
			over = i
		}
	}
	if n == maxRequests && over >= 0 {
		size := s.Requests[over].size()
		s.booked -= size
		a.memory.Book(x.Info().UID, -size)
		s.Requests = slices.Delete(s.Requests, over, over+1)
		return true
	}
	return n < maxRequests
}

func (a *Attribution) left(v registry.View, x *registry.Session, ev *tracer.Event) {
	for _, e := range a.of(x.ID()).Requests {
		if e.Client != ev.Process {
			continue
		}
		code, signal := document.Exit(ev.ExitStatus)
		e.Left, e.Failed = ev.Time, !e.Kind.Relays && (signal != "" || *code != 0)
		if e.Command != "" {
			v.Refresh(x)
			ended := x.Info().EndedAt
			// It may handle the signal that ends it, and exit with 0. Of one that its session's end sends the event tells nothing.
			e.Interrupted = signal != "" || *code >= interrupted || ev.Signal != nil || ended != 0 && ended < ev.Time
			v.Save(x)
			a.tell(v, e)
			a.interrupt(v, e)
		}
	}
}

func (a *Attribution) found(v registry.View, x *registry.Session, job attributed) {
	s := a.of(x.ID())
	for _, e := range s.Requests {
		if job.Asked != nil && e.Client == job.Asked.Client && e.Asked == job.Asked.Asked {
			e.Found, job.Asked = true, e
		}
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
func (a *Attribution) forked(_ registry.View, x *registry.Session, ev *tracer.Event) {
	for _, e := range a.of(x.ID()).Requests {
		if e.Kind.Forks && e.Client == ev.Creator {
			e.Inside = true
		}
	}
}

// serve notes whether the server for what a session asks is one of its members.
func (a *Attribution) serve(v registry.View, x *registry.Session, kind *lookup.BrokerKind, inside bool) {
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
		for _, e := range all[i].Requests {
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
	argv, _ := lookup.ArgvOf(a.o.Proc, pid)
	server, ok := lookup.BrokerRequestOf(procfs.Base(a.o.Proc.Link(pid, "exe")), argv)
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
		if of == nil || !of.Active() || of.Info().Kept || a.of(in.Session).For != 0 ||
			of.Info().UID != x.Info().UID || in.Flags&tracer.FlagRoot != 0 ||
			v.Within(
				client,
				in.Session,
			) || v.Within(in.Session, client) || of.Info().Rule != 0 && !a.o.Rules.Enforced(of.Info().UID) { // that one never ends
			return from
		}
		a.serve(v, of, server.Kind, false)
		return of.Info()
	})
	if err == nil && from.ID != 0 {
		a.o.Steward.Share(from, in.Identity, "", fmt.Sprintf("session %v is connected to it", client))
	}
}

func (s *brokered) inside(e *lookup.BrokerRequest) bool {
	return slices.ContainsFunc(s.Requests, func(o *request) bool {
		return o.Inside && o.Kind.Name == e.Kind.Name && o.Server == e.Server
	})
}
