//go:build linux

package tracer_test

import (
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
	"github.com/lineage-ebpf/lineage/tracer"
	"golang.org/x/sys/unix"
)

// A client that a signal ends, also if it caught the signal, ends what it asked for, unless that has exited before it.
func TestClientLeft(t *testing.T) { onEachSide(t, testClientLeft) }

func testClientLeft(t *testing.T, tr *tracer.Tracer) {
	host, in := startIn(t, tr, ":")
	for _, c := range []struct {
		name, script string
		kill         unix.Signal
		exited       bool // the command's root, before its client
		unset        bool
		other        bool // it was another session's client before
		ends         bool
	}{
		{name: "killed", script: ":", kill: unix.SIGKILL, ends: true},
		{name: "terminated", script: ":", kill: unix.SIGTERM, ends: true},
		{name: "caught", script: "exit 130", ends: true},
		{name: "has left it", script: "exit 0"},
		{name: "failed", script: "exit 127"},
		{name: "says what became of it", script: "exit 137", exited: true},
		{name: "not a client any more", script: ":", kill: unix.SIGKILL, unset: true},
		{name: "another's client before", script: ":", kill: unix.SIGKILL, other: true, ends: true},
	} {
		client := start(t, c.script)
		its := identify(t, tr, client.pid())
		require.NoError(t, tr.Enter(0, in, its, tracer.Identity{}, tracer.SourceEnv))
		command := start(t, "sleep 60 & read go")
		id := create(t, tr, command, tracer.SessionSpec{KeepOnRootExit: true})
		command.goOn()
		command.reads()
		if c.other {
			require.NoError(t, tr.SetClients(map[tracer.Identity]tracer.SessionID{its: in}))
		}
		require.NoError(t, tr.SetClients(map[tracer.Identity]tracer.SessionID{its: id}))
		if c.exited {
			command.goOn()
			command.wait()
		}
		if c.unset {
			require.NoError(t, tr.SetClients(nil))
		}
		if c.kill != 0 {
			require.NoError(t, unix.Kill(int(client.pid()), c.kill))
		} else {
			client.goOn()
		}
		client.wait()
		if !c.ends {
			sentence(t, tr)
			if s, err := tr.Session(id); err != nil || s.State != tracer.StateActive || s.Live == 0 {
				t.Errorf("%s: %+v, %v", c.name, s, err)
			}
			require.NoError(t, tr.End(id, tracer.CauseEnd, 0))
			sentence(t, tr)
			settled(t, tr, id)
			continue
		}
		nobodyLives(t, tr, id, 4)
		settledBy(t, tr, id, tracer.CauseOwnerExit)
	}
	require.NoError(t, tr.SetClients(map[tracer.Identity]tracer.SessionID{{PID: host.pid(), Start: 1}: in})) // of no process
	endAll(t, tr, in, host)
}
