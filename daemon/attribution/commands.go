//go:build linux

package attribution

import (
	"context"
	"strings"
	"sync"

	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/lineage"
	"github.com/lineage-ebpf/lineage/tracer"
)

// Commands that were put into containers are joined with the members that asked for them. An engine starts the command, and
// only the client's command line says which one it asked for. That is certain if the client is connected to the engine that
// has the container, and no other request and no other command fits. A process that is connected to the engine may end every
// process of its containers, so a member gains nothing by forging the rest.

// Find returns the session of the member that certainly asked for a command, which was put into that container; 0: not
// known. interrupted: its client was, while the command ran. ready is false until the event with the command line has come.
func (a *Attribution) Find(info tracer.SessionInfo, in *lineage.Container) (asker tracer.SessionID,
	interrupted, ready bool) {
	is, err := registry.Ask(a.o.Registry, func(registry.View) command { return a.of(info.ID).command })
	if err != nil || is.Asker != 0 || is.Command == "" || in.Runtime != "docker" {
		return is.Asker, is.Interrupted, is.Began
	}
	fits := func(r *request) bool { return r.fits(is.Command, in, info.Created) }
	serves := make(map[tracer.Identity]bool)
	for _, engine := range a.connect(fits) {
		if _, known := serves[engine]; !known {
			now, err := a.o.Kernel.Identify(engine.PID)
			serves[engine] = err == nil && now == engine && a.engines.serves(engine.PID, in.ID)
		}
	}
	var revoked []tracer.SessionInfo
	a.o.Registry.Do(func(t registry.Tx) {
		revoked = a.match(t.View, info, func(r *request) bool { return fits(r) && serves[r.Engine] })
		is = a.of(info.ID).command
	})
	for _, other := range revoked {
		if other.For != 0 {
			a.o.Steward.Release(other, "another command fits its client too")
		}
	}
	if is.Asker != 0 {
		a.o.Log.Info().Str(system.KeySession, info.ID.String()).
			Str(system.KeyAsker, is.Asker.String()).Msg("client of a command in a container found")
	}
	return is.Asker, is.Interrupted, true
}

// fits reports whether a client may have asked for a command, which began at that boottime in that container.
func (e *request) fits(command string, in *lineage.Container, at uint64) bool {
	return !e.Brief && e.Command == command && e.within(at, false) &&
		(e.Container == in.Name || strings.HasPrefix(in.ID, e.Container))
}

// connect asks the living clients of requests for their engine, and returns the engines.
func (a *Attribution) connect(which func(*request) bool) (all []tracer.Identity) {
	var open []tracer.Identity
	err := a.o.Registry.Read(func(v registry.View) {
		for _, r := range a.commands(v, which) {
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
	passed := sync.OnceValue(a.engines.listening)
	for _, client := range open {
		pid := a.engines.of(client.PID, passed)
		if pid == 0 {
			continue
		}
		engine, err := a.o.Kernel.Identify(pid)
		if now, gone := a.o.Kernel.Identify(client.PID); err == nil && gone == nil && now == client {
			engines[client] = engine
			all = append(all, engine)
		}
	}
	if len(engines) > 0 {
		a.o.Registry.Do(func(t registry.Tx) {
			for _, r := range a.commands(t.View, which) {
				if engine, ok := engines[r.Client]; ok {
					r.Engine = engine
				}
			}
		})
	}
	return all
}

func (a *Attribution) commands(v registry.View, which func(*request) bool) (all []*request) {
	for x := range v.Sessions() {
		for _, r := range a.of(x.ID()).Requests {
			if r.Command != "" && which(r) {
				r.By = x.ID()
				all = append(all, r)
			}
		}
	}
	return all
}

// match joins a command with a request, if one alone fits, and the other way round. It returns the sessions of commands
// that were joined with a request before, which fits this one too.
func (a *Attribution) match(v registry.View, info tracer.SessionInfo,
	fits func(*request) bool) (revoked []tracer.SessionInfo) {
	var free, taken []*request
	different := []tracer.SessionID{info.ID}
	for _, r := range a.commands(v, fits) {
		different = append(different, r.By, r.Session)
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
		a.of(info.ID).command.Asker = r.By
		a.tell(v, r)
		a.interrupt(v, r)
	case len(free) > 0:
		unsure(free)
	default:
		for _, r := range taken {
			if x := v.Session(r.Session); x != nil {
				its := &a.of(r.Session).command
				its.Asker, its.Interrupted, its.Detached = 0, false, false
				a.o.Steward.SetClient(v, r.Session, tracer.Identity{})
				revoked = append(revoked, x.Info())
			}
		}
		unsure(taken)
	}
	for _, id := range different {
		if x := v.Session(id); x != nil {
			v.Save(x)
			v.Changed(id)
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

// answered notes a request whose command left no record. If there are several, it may be any of them.
func (a *Attribution) answered(v registry.View, command *command, at uint64) {
	if command.Command == "" || command.Asker != 0 {
		return
	}
	all := a.commands(v, func(r *request) bool {
		return r.Session == 0 && !r.Brief && r.Command == command.Command && r.within(at, false)
	})
	if len(all) > 0 {
		all[0].Brief = true
	}
	if len(all) > 1 {
		unsure(all)
	}
}

// tell has the rules know the client that waits for a command, or that it no longer does.
func (a *Attribution) tell(v registry.View, r *request) {
	client := r.Client
	if r.Left != 0 {
		client = tracer.Identity{}
	}
	a.o.Steward.SetClient(v, r.Session, client)
}

// interrupt notes on a command that its client was killed, interrupted or timed out while the command ran. A client whose
// command has exited says so by its exit code; one that has exited otherwise has left the command on purpose.
func (a *Attribution) interrupt(v registry.View, r *request) {
	x := v.Session(r.Session)
	if x == nil || r.Left == 0 {
		return
	}
	its := &a.of(r.Session).command
	if its.Detached = !r.Interrupted || x.RootDied() != 0 && x.RootDied() <= r.Left; its.Detached {
		v.Save(x)
		return
	}
	its.Interrupted = true
	if its.waits = x.Info().Rule == 0 && x.Info().For == 0; its.waits {
		a.o.Steward.Judge(x.Info()) // it is not to grow old first
	}
	v.Save(x)
	system.Offer(a.due, struct{}{})
}

// changed ends a command that is judged now, if its client was interrupted before.
func (a *Attribution) changed(v registry.View, id tracer.SessionID) {
	its, x := a.sessions[id], v.Session(id)
	if its != nil && its.command.waits && x != nil && (x.Info().Rule != 0 || x.Info().For != 0) {
		its.command.waits = false
		system.Offer(a.due, struct{}{})
	}
}

func (a *Attribution) look(ctx context.Context) {
	a.o.Steward.Arm()
	a.endDue(ctx)
	a.wantJoins()
}

// wantJoins has the kernel look for commands in containers while a client waits for one, which may be older than the daemon.
func (a *Attribution) wantJoins() {
	now := a.o.Clock.Boottime()
	waits, err := registry.Ask(a.o.Registry, func(v registry.View) bool {
		return len(a.commands(v, func(r *request) bool { return r.Session == 0 && r.within(now, false) })) > 0
	})
	if err == nil {
		a.o.Steward.WantJoins(waits)
	}
}
