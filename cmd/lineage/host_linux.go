package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise"
	"github.com/lineage-ebpf/lineage/daemon"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/daemon/document"
	"github.com/lineage-ebpf/lineage/daemon/status"
	"github.com/lineage-ebpf/lineage/daemon/system"
	"github.com/lineage-ebpf/lineage/tracer"
)

// dispatch turns this process into a canary of the daemon, if it was started as one.
// That is not a cobra command: its arguments are not for people.
func dispatch(args []string) {
	if len(args) > 1 && args[1] == status.CanaryArg {
		status.CanaryMain(args[2:])
	}
}

func thisHost() host {
	here := host{
		version:   version,
		commit:    commit,
		abi:       tracer.ABI,
		objects:   tracer.Objects,
		doctor:    doctor,
		unrefused: tracer.Unrefused,
		euid:      os.Geteuid,
		ancestors: query.ThisHost.Ancestors,
		orphans:   query.ThisHost.Orphans,
		audit:     auditOf,
		halted:    pinnedHalt,
	}
	here.commands = func(a *app) []*cobra.Command {
		connect := func(ctx context.Context, socket string) (api.Client, error) {
			return system.Connect(ctx, system.ConnectOptions{Socket: socket})
		}
		return []*cobra.Command{
			a.runCommand(supervise.Run, connect),
			a.timeoutCommand(supervise.Timeout, connect),
			a.initCommand(supervise.Init),
			a.daemonCommand(daemon.Serve, daemon.Unload),
		}
	}
	return here
}

// doctor tries what the daemon on a socket needs of this host.
func doctor(socket string) api.Doctor {
	i, _ := system.InstanceOf(socket) // an error leaves paths that cannot be written
	r := tracer.Probe(i.Pins, filepath.Dir(i.Socket))
	d := api.Doctor{Supported: r.Err == nil, Kernel: r.Kernel, Level: r.Level,
		Missing: r.Missing, Items: []api.DoctorItem{}}
	for _, c := range r.Checks {
		d.Items = append(d.Items, api.DoctorItem{Feature: c.Name, OK: c.OK,
			Required: c.Required, Why: c.Detail, Do: c.Do})
	}
	return d
}

// pinnedHalt is the halt of the programs that the daemon on a socket has pinned.
func pinnedHalt(socket string) *api.Halt {
	i, err := system.InstanceOf(socket)
	if err != nil {
		return nil
	}
	h, err := tracer.PinnedHalt(i.Pins)
	if err != nil {
		return nil
	}
	return document.Halt(h, daemon.ThisHost().Clock.Clock)
}

// auditOf is the audit log of the daemon on a socket.
func auditOf(socket string) query.OpenAudit {
	return func() ([]access.AuditFile, func(), error) {
		i, err := system.InstanceOf(socket)
		if err != nil {
			return nil, nil, err
		}
		return access.OpenAuditFiles(i.Audit)
	}
}
