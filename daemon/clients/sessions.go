//go:build linux

package clients

import (
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
)

const (
	maxRequests = 64      // that a session remembers
	maxMemory   = 4 << 20 // bytes of all requests; users share it

	// An engine begins the command within patience of the request, and within settling of the end of a client that was
	// interrupted.
	patience = 30 * time.Second
	settling = 2 * time.Second

	// interrupted is the least exit code that says that a client has caught a signal.
	interrupted = 128
)

// request is a client that a member ran.
type request struct {
	Client tracer.Identity
	Comm   string
	UID    uint32
	Argv   []string // the beginning, for display
	Cut    bool     `json:",omitempty"` // there is more of it
	Asked  uint64   // boottime of the client's exec
	Left   uint64   `json:",omitempty"` // … of its exit, 0: it lives
	// Interrupted: a signal has ended it, or the end of its session.
	Interrupted bool   `json:",omitempty"`
	Container   string // as the command line names it
	Command     string // the sum of the command
	// Engine is the daemon that it is connected to, zero: none was found.
	Engine tracer.Identity
	// Session is that of the command, with its root; 0: not found.
	Session tracer.SessionID `json:",omitempty"`
	Root    tracer.Identity
	// Unsure: another request, or another command, fits too.
	Unsure bool `json:",omitempty"`
	// Brief: the command has left no record.
	Brief bool `json:",omitempty"`

	By tracer.SessionID `json:"-"` // the session that it belongs to
}

// known is what is known of a session: what its members asked for, and who asked for the command that it holds.
type known struct {
	Requests []*request `json:",omitempty"`
	Overflow bool       `json:",omitempty"` // there were more
	Began    bool       `json:",omitempty"`
	Command  string     `json:",omitempty"` // the sum of the command, "" if it is not known
	// Asker is the session whose member certainly asked for the command, 0: not known.
	Asker tracer.SessionID `json:",omitempty"`
	// Interrupted: its client has been, while the command ran.
	Interrupted bool `json:",omitempty"`
	// Detached: its client has left it on purpose, or was answered.
	Detached bool `json:",omitempty"`
	waits    bool // Interrupted, and no rule was found yet

	booked int // bytes
}

// size is roughly the memory of r.
func (r *request) size() int {
	return int(unsafe.Sizeof(*r)) + memory.ArgvSize(r.Argv) + len(r.Container) + len(r.Command)
}

// fits reports whether a client may have asked for a command, which began at that boottime in that container.
func (r *request) fits(command string, in *lineage.Container, at uint64) bool {
	return !r.Brief && r.Command == command && r.within(at) && (r.Container == in.Name || strings.HasPrefix(in.ID, r.Container))
}

func (r *request) within(at uint64) bool {
	until := r.Asked + uint64(patience)
	switch {
	case r.Interrupted:
		until = min(until, r.Left+uint64(settling))
	case r.Left != 0:
		until = min(until, r.Left)
	}
	return at >= r.Asked && at <= until
}

// drop forgets the oldest request that is over.
func (c *Clients) drop(v registry.View, x *registry.Session, its *known) {
	i := slices.IndexFunc(its.Requests, func(r *request) bool {
		command := v.Session(r.Session)
		return r.Left != 0 && (command == nil || command.Closed())
	})
	if i >= 0 {
		c.forget(x.Info().UID, its, i)
	}
}

func (c *Clients) forget(uid uint32, its *known, i int) {
	size := its.Requests[i].size()
	its.booked -= size
	c.memory.Book(uid, -size)
	its.Requests = slices.Delete(its.Requests, i, i+1)
}

// answered notes a request whose command left no record. If there are several, it may be any of them.
func (c *Clients) answered(command *known, at uint64) {
	if command.Command == "" || command.Asker != 0 {
		return
	}
	var all []*request
	for _, its := range c.sessions {
		for _, r := range its.Requests {
			if r.Session == 0 && !r.Brief && r.Command == command.Command && r.within(at) {
				all = append(all, r)
			}
		}
	}
	if len(all) > 0 {
		all[0].Brief = true
	}
	if len(all) > 1 {
		unsure(all)
	}
}

// Arm implements [rules.Clients]. Where the kernel does not know a client, only the daemon ends its command.
func (c *Clients) Arm() {
	c.arming.Lock() // the kernel gets what is true last
	defer c.arming.Unlock()
	p, all := c.o.Rules.Policy(), make(map[tracer.Identity]tracer.SessionID)
	err := c.o.Registry.Read(func(v registry.View) {
		for _, r := range c.requests(v, func(r *request) bool { return r.Session != 0 && r.Left == 0 }) {
			if x := v.Session(r.Session); x != nil && x.Active() && c.ends(p, x.Info()) && c.o.Rules.Enforced(x.Info().UID) {
				all[r.Client] = r.Session
			}
		}
	})
	if err != nil {
		return
	}
	if err := c.o.Kernel.SetClients(all); err != nil {
		c.o.Log.Error().Err(err).Msg("commands in containers do not end with their clients without the daemon")
	}
}

// look ends what is due, and has the kernel no longer look for commands that nobody waits for.
func (c *Clients) look() {
	c.Arm()
	c.endDue()
	c.wantJoins(false)
}

// wantJoins has the kernel look for commands in containers if a client has just asked for one, or while one waits, which may be
// older than the daemon.
func (c *Clients) wantJoins(asked bool) {
	c.joining.Lock() // the kernel gets what is true last
	defer c.joining.Unlock()
	now := c.o.Clock.Boottime()
	waits, err := registry.Ask(c.o.Registry, func(v registry.View) bool {
		return asked || len(c.requests(v, func(r *request) bool { return r.Session == 0 && r.within(now) })) > 0
	})
	if err == nil {
		c.o.Steward.WantJoins(waits)
	}
}

// endDue ends the commands whose client was interrupted, and those whose session has ended that asked for them, as far as
// the policy goes. With a rule, a command that its client has left on purpose outlives that session.
func (c *Clients) endDue() {
	p := c.o.Rules.Policy()
	due, err := registry.Ask(c.o.Registry, func(v registry.View) (due []rules.Excess) {
		for x := range v.Sessions() {
			its := c.sessions[x.ID()]
			if its == nil || its.Asker == 0 || !x.Active() {
				continue
			}
			over := rules.Excess{Session: x.ID(), UID: x.Info().UID, Grace: x.Info().Grace, ByPolicy: true}
			asker := v.Session(its.Asker)
			switch {
			case its.Interrupted && c.ends(p, x.Info()):
				over.Cause = tracer.CauseOwnerExit
			case c.ends(p, x.Info()) && (x.Info().For != 0 || !its.Detached) && (asker == nil || !asker.Active()):
				over.Cause = tracer.CauseAncestor
			default:
				continue
			}
			if v.Refresh(x); x.Active() { // the kernel may have been first
				due = append(due, over)
			}
		}
		return due
	})
	if err != nil {
		return
	}
	for _, x := range due {
		c.o.Steward.EndOver(x)
	}
}

// ends reports whether a command is to end with its client.
func (c *Clients) ends(p *policy.Policy, command tracer.SessionInfo) bool {
	if command.Rule == policy.ContainerRule {
		return p.EndsWithClient(command.Name)
	}
	return command.For != 0 && p.Brokers.End != "none"
}

// describe adds what members asked for, and who asked for the session's own command.
func (c *Clients) describe(v registry.View, x *registry.Session, d *document.Session) {
	its := c.sessions[x.ID()]
	if its == nil {
		return
	}
	over := x.Closed() || x.Info().State == tracer.StateEmpty
	for _, r := range its.Requests {
		switch {
		case r.Session != 0:
			d.Work.Found = append(d.Work.Found, c.found(v, r))
		case !r.Brief:
			q := r.document()
			q.Over, q.Unsure = over || r.Left != 0 && !r.within(c.o.Clock.Boottime()), r.Unsure
			d.Work.Open = append(d.Work.Open, *q)
		}
	}
	if its.Asker == 0 {
		return
	}
	d.For = its.Asker
	if asker := c.sessions[its.Asker]; asker != nil {
		for _, r := range asker.Requests {
			if r.Session == x.ID() {
				d.Work.Brought = append(d.Work.Brought, c.found(v, r))
			}
		}
	}
}

// found describes the command that was found for a request.
func (c *Clients) found(v registry.View, r *request) document.Found {
	f := document.Found{Process: r.Root, Source: tracer.SourceContainer, Request: r.document(), Session: r.Session}
	if n, ok := v.Graph().Node(r.Root); ok {
		f.Comm = n.Comm
	}
	if x := v.Session(r.Session); x != nil && c.ends(c.o.Rules.Policy(), x.Info()) {
		f.Ends = c.o.Rules.Enforced(x.Info().UID)
		f.Observed = !f.Ends
	}
	return f
}

func (r *request) document() *document.Request {
	return &document.Request{Broker: "docker", Client: r.Client, Comm: r.Comm, UID: r.UID, Argv: r.Argv, ArgvTruncated: r.Cut, Time: r.Asked}
}

// Redact implements [registry.Redactor].
func (k *known) Redact(redact func([]string) []string) {
	for _, r := range k.Requests {
		r.Argv = redact(r.Argv)
	}
}

// Remember implements [registry.Persistent].
func (c *Clients) Remember(_ registry.View, x *registry.Session) []registry.Part {
	its := c.sessions[x.ID()]
	if its == nil {
		return nil
	}
	copied := *its
	copied.Requests = make([]*request, len(its.Requests))
	for i, r := range its.Requests {
		copied.Requests[i] = new(*r)
	}
	return []registry.Part{{Name: "clients", Value: &copied}}
}

// Restore implements [registry.Persistent].
func (c *Clients) Restore(_ registry.View, x *registry.Session, was registry.Parts) error {
	var its known
	if err := was.Decode("clients", &its); err != nil {
		return err
	}
	if its.Requests == nil && !its.Began {
		return nil
	}
	for _, r := range its.Requests {
		its.booked += r.size()
	}
	c.memory.Book(x.Info().UID, its.booked)
	c.sessions[x.ID()] = &its
	return nil
}
