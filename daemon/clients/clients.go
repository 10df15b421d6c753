//go:build linux

package clients

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/rules"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/lineage/memory"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
	"github.com/rs/zerolog"
)

// Kernel is what is asked of the tracer.
type Kernel interface {
	Identify(pid uint32) (tracer.Identity, error)
	SetClients(all map[tracer.Identity]tracer.SessionID) error
}

// Options of New.
type Options struct {
	Registry *registry.Registry
	Rules    *rules.Policy
	Steward  *rules.Steward
	Kernel   Kernel
	Proc     procfs.FS
	Sockets  func(pid uint32) ([]Socket, error)
	Self     tracer.Identity // the daemon
	Clock    registry.Clock
	Log      zerolog.Logger
}

// Clients joins the commands that were put into containers with the members that asked for them. An engine starts the
// command, and only the client's command line says which one it asked for. That is certain if the client is connected to
// the engine that has the container, and no other request and no other command fits. A process that is connected to the engine may
// end every process of its containers, so a member gains nothing by forging the rest.
type Clients struct {
	o       Options
	engines engines

	asked chan struct{} // a member has run a client
	due   chan struct{} // a client was interrupted

	arming, joining sync.Mutex

	// Of the registry's goroutine.
	sessions map[tracer.SessionID]*known
	memory   *memory.Share
}

// New makes clients; attach its hooks.
func New(o Options) *Clients {
	return &Clients{
		o: o, engines: engines{o.Proc, o.Self.PID, o.Sockets}, asked: make(chan struct{}, 1), due: make(chan struct{}, 1),
		sessions: make(map[tracer.SessionID]*known), memory: memory.NewShare(maxMemory),
	}
}

// A client is asked for its engine after each of these pauses, until it is connected, and when a command appears.
var pauses = []time.Duration{50 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}

// Run asks clients which engine they are connected to, and ends the commands of those that were interrupted.
func (c *Clients) Run(ctx context.Context) {
	soon := time.NewTimer(time.Hour)
	defer soon.Stop()
	next := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.asked:
			c.wantJoins(true)
			next = 0
			soon.Reset(pauses[0])
		case <-soon.C:
			now := c.o.Clock.Boottime()
			c.connect(func(r *request) bool { return r.within(now) })
			if next++; next < len(pauses) {
				soon.Reset(pauses[next])
			}
		case <-c.due:
			c.endDue()
		}
	}
}

// Hooks are what is attached to the registry.
func (c *Clients) Hooks() *registry.Hooks {
	return &registry.Hooks{
		Execed: func(v registry.View, x *registry.Session, ev *tracer.Event) {
			if x.Info().Joined && ev.Process == x.Info().Root {
				c.began(v, x, ev)
			}
			c.asks(v, x, ev)
		},
		Exited: c.left,
		Forgotten: func(_ registry.View, x *registry.Session) {
			if its := c.sessions[x.ID()]; its != nil {
				if x.RootDied() != 0 {
					c.answered(its, x.Info().Created)
				}
				c.memory.Book(x.Info().UID, -its.booked)
				delete(c.sessions, x.ID())
			}
		},
		Sampled: func(registry.View, *registry.Look) func() { return c.look },
		Changed: c.changed,
		Describe: func(v registry.View, x *registry.Session, d *document.Session) {
			c.describe(v, x, d)
		},
		Persistent: c,
	}
}

// of returns what is known of a held session.
func (c *Clients) of(id tracer.SessionID) *known { return registry.Known(c.sessions, id) }

// began notes the command of a session. Of one that was cut nothing is certain.
func (c *Clients) began(v registry.View, x *registry.Session, ev *tracer.Event) {
	if its := c.of(x.ID()); !its.Began {
		its.Began = true
		if !ev.ArgvTruncated {
			its.Command = sumOf(string(ev.Filename), ev.Args())
		}
		v.Save(x)
	}
}

// asks notes a request, if the program is a client that makes one.
func (c *Clients) asks(v registry.View, x *registry.Session, ev *tracer.Event) {
	if ev.ArgvTruncated || x.Closed() || procfs.Base(string(ev.Filename)) != "docker" {
		return
	}
	argv := ev.Args()
	container, command, ok := execOf(string(ev.Filename), argv)
	if !ok {
		return
	}
	r := &request{
		Client: ev.Process, Comm: ev.Comm.String(), UID: ev.UID, Asked: ev.Time,
		Container: container, Command: sumOf(command[0], command),
	}
	r.Argv, r.Cut = memory.ShortArgv(argv)
	r.Container = string([]byte(container)) // not a part of the event
	its := c.of(x.ID())
	if len(its.Requests) >= maxRequests {
		c.drop(v, x, its)
	}
	if len(its.Requests) >= maxRequests || !c.memory.Take(x.Info().UID, r.size()) {
		its.Overflow = true
		return
	}
	its.booked += r.size()
	its.Requests = append(its.Requests, r)
	v.Save(x)
	signal(c.asked)
}

// left notes that a client has exited.
func (c *Clients) left(v registry.View, x *registry.Session, ev *tracer.Event) {
	its := c.sessions[x.ID()]
	if its == nil {
		return
	}
	for _, r := range its.Requests {
		if r.Client != ev.Process {
			continue
		}
		code, killed := document.Exit(ev.ExitStatus)
		v.Refresh(x)
		ended := x.Info().EndedAt
		// It may handle the signal that ends it, and exit with 0. Of one that its session's end sends the event tells nothing.
		r.Left, r.Interrupted = ev.Time, killed != "" || *code >= interrupted || ev.Signal != nil || ended != 0 && ended < ev.Time
		v.Save(x)
		c.interrupt(v, r)
	}
}

// interrupt notes on a command that its client was killed, interrupted or timed out while the command ran. A client whose
// command has exited says so by its exit code; one that has exited otherwise has left the command on purpose.
func (c *Clients) interrupt(v registry.View, r *request) {
	x := v.Session(r.Session)
	if x == nil || r.Left == 0 {
		return
	}
	its := c.of(r.Session)
	if its.Detached = !r.Interrupted || x.RootDied() != 0 && x.RootDied() <= r.Left; its.Detached {
		v.Save(x)
		return
	}
	its.Interrupted = true
	if its.waits = x.Info().Rule == 0 && x.Info().For == 0; its.waits {
		c.o.Steward.Judge(x.Info()) // it is not to grow old first
	}
	v.Save(x)
	signal(c.due)
}

// changed ends a command that is judged now, if its client was interrupted before.
func (c *Clients) changed(v registry.View, id tracer.SessionID) {
	if its := c.sessions[id]; its != nil && its.waits {
		if x := v.Session(id); x != nil && (x.Info().Rule != 0 || x.Info().For != 0) {
			its.waits = false
			signal(c.due)
		}
	}
}

// Find returns the session of the member that certainly asked for a command, which was put into that container; 0: not
// known. interrupted: its client was, while the command ran. ready is false until the event with the command line has come.
func (c *Clients) Find(info tracer.SessionInfo, in *lineage.Container) (asker tracer.SessionID, interrupted, ready bool) {
	var command string
	at := info.Created
	fits := func(r *request) bool { return r.fits(command, in, at) }
	answer, err := registry.Ask(c.o.Registry, func(v registry.View) known { command = c.of(info.ID).Command; return *c.of(info.ID) })
	if err != nil || answer.Asker != 0 || command == "" || in.Runtime != "docker" {
		return answer.Asker, answer.Interrupted, answer.Began
	}
	serves := make(map[tracer.Identity]bool)
	for _, engine := range c.connect(fits) {
		if _, known := serves[engine]; !known {
			now, err := c.o.Kernel.Identify(engine.PID)
			serves[engine] = err == nil && now == engine && c.engines.serves(engine.PID, in.ID)
		}
	}
	var revoked []tracer.SessionInfo
	c.o.Registry.Do(func(t registry.Tx) {
		revoked = c.match(t.View, info, func(r *request) bool { return fits(r) && serves[r.Engine] })
		answer.Asker, answer.Interrupted = c.of(info.ID).Asker, c.of(info.ID).Interrupted
	})
	for _, other := range revoked {
		if other.For != 0 {
			c.o.Steward.Release(other, "another command fits its client too")
		}
	}
	if answer.Asker != 0 {
		c.o.Log.Info().Str(logging.KeySession, info.ID.String()).Str(logging.KeyAsker, answer.Asker.String()).Msg("client of a command in a container found")
	}
	return answer.Asker, answer.Interrupted, true
}

// connect asks the living clients of requests for their engine, and returns the engines.
func (c *Clients) connect(which func(*request) bool) (all []tracer.Identity) {
	var open []tracer.Identity
	err := c.o.Registry.Read(func(v registry.View) {
		for _, r := range c.requests(v, which) {
			switch {
			case r.Engine != tracer.Identity{}:
				all = append(all, r.Engine)
			case r.Left == 0:
				open = append(open, r.Client)
			}
		}
	})
	if err != nil {
		return nil
	}
	engines := make(map[tracer.Identity]tracer.Identity)
	passed := sync.OnceValue(c.engines.listening)
	for _, client := range open {
		pid := c.engines.of(client.PID, passed)
		if pid == 0 {
			continue
		}
		engine, err := c.o.Kernel.Identify(pid)
		if now, gone := c.o.Kernel.Identify(client.PID); err == nil && gone == nil && now == client {
			engines[client] = engine
			all = append(all, engine)
		}
	}
	if len(engines) > 0 {
		c.o.Registry.Do(func(t registry.Tx) {
			for _, r := range c.requests(t.View, which) {
				if engine, ok := engines[r.Client]; ok {
					r.Engine = engine
				}
			}
		})
	}
	return all
}

// requests are those of all sessions that match.
func (c *Clients) requests(v registry.View, which func(*request) bool) (all []*request) {
	for x := range v.Sessions() {
		if its := c.sessions[x.ID()]; its != nil {
			for _, r := range its.Requests {
				if which(r) {
					r.By = x.ID()
					all = append(all, r)
				}
			}
		}
	}
	return all
}

// match joins a command with a request, if one alone fits, and the other way round. It returns the sessions of commands
// that were joined with a request before, which fits this one too.
func (c *Clients) match(v registry.View, info tracer.SessionInfo, fits func(*request) bool) (revoked []tracer.SessionInfo) {
	var free, taken []*request
	for _, r := range c.requests(v, fits) {
		if r.Session == 0 {
			free = append(free, r)
		} else {
			taken = append(taken, r)
		}
	}
	switch {
	case len(free) == 1 && !free[0].Unsure:
		r := free[0]
		r.Session, r.Root = info.ID, info.Root
		c.of(info.ID).Asker = r.By
		c.interrupt(v, r)
	case len(free) > 0:
		unsure(free)
	default:
		for _, r := range taken {
			if other := c.sessions[r.Session]; other != nil {
				other.Asker, other.Interrupted, other.Detached = 0, false, false
				if x := v.Session(r.Session); x != nil {
					revoked = append(revoked, x.Info())
				}
			}
		}
		unsure(taken)
	}
	for _, r := range slices.Concat(free, taken) {
		if x := v.Session(r.By); x != nil {
			v.Save(x)
			v.Changed(r.By)
		}
	}
	for _, id := range append(revoked, info) {
		if x := v.Session(id.ID); x != nil {
			v.Save(x)
			v.Changed(id.ID)
		}
	}
	return revoked
}

// unsure notes of requests that more than one command, or more than one request, fits.
func unsure(all []*request) {
	for _, r := range all {
		r.Unsure, r.Session, r.Root = true, 0, tracer.Identity{}
	}
}

// signal wakes a goroutine.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
