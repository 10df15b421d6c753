//go:build linux

package attribution

import (
	"fmt"

	"github.com/lineage-ebpf/lineage/daemon/broker"
	"github.com/lineage-ebpf/lineage/daemon/logging"
	"github.com/lineage-ebpf/lineage/daemon/registry"
	"github.com/lineage-ebpf/lineage/tracer"
	"github.com/lineage-ebpf/lineage/tracer/procfs"
)

// meetServers asks the kernel which shared servers the clients in sessions are connected to. Each client is asked when it has run
// for twice as long as the last time: a user may have many, with many files.
func (a *Attribution) meetServers() {
	now := a.o.Clock.Boottime()
	type asker struct {
		session tracer.SessionID
		client  tracer.Identity
	}
	due, err := registry.Ask(a.o.Registry, func(v registry.View) (due []asker) {
		for x := range v.Sessions() {
			for _, e := range a.of(x.ID()).Requests {
				if e.Kind.Shared && e.Left == 0 && !x.Closed() && now >= e.look {
					e.look = 2*now - e.Asked
					due = append(due, asker{x.ID(), e.Client})
				}
			}
		}
		return due
	})
	if err != nil {
		return
	}
	for _, c := range due {
		sockets, err := a.o.Sockets(c.client.PID)
		if now, gone := a.o.Kernel.Identify(c.client.PID); err != nil || gone != nil || now != c.client {
			continue
		}
		for _, s := range sockets {
			if s.Listener != 0 {
				a.connected(c.session, s.Listener)
			}
		}
	}
}

// connected notes that a client in a session is connected to a process. A shared server that is a member of another session leaves
// that one, whose end would take this one's work, and ends with the last session of its user. No rule allows it, but no member
// gains by passing for a server: any process of the user may have a real one run what it wants, in the session of that.
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
		a.serve(v, x, server.Kind, client == in.Session)
		if of == nil || v.Within(client, in.Session) || v.Within(in.Session, client) || in.Flags&tracer.FlagRoot != 0 {
			return from
		}
		// Where only a rule's session would end, and the policy is observed, nothing ends.
		if i := of.Info(); of.Active() && !i.Kept && a.of(i.ID).For == 0 && i.UID == x.Info().UID && (i.Rule == 0 || a.o.Rules.Enforced(i.UID)) {
			from = i
		}
		return from
	})
	if err != nil || from.ID == 0 {
		return
	}
	if err := a.o.Steward.Share(from, in.Identity, "", fmt.Sprintf("session %v is connected to it", client)); err != nil {
		a.o.Log.Error().Err(err).Str(logging.KeySession, from.ID.String()).Uint32(logging.KeyPID, pid).Msg("shared server not moved out of its session")
		return
	}
	a.o.Registry.Do(func(t registry.Tx) {
		if x := t.Session(from.ID); x != nil {
			a.serve(t.View, x, server.Kind, false)
		}
	})
}
