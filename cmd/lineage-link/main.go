//go:build linux

// Lineage-link connects this host to NATS servers: it brings signed commands and questions to the daemon, and says that
// the host is there.
//
// For -H of an operator's command it brings an operator's requests to such hosts.
//
// It is a program of its own because it is a network client, and the daemon's binary, which
// runs as root, has none. It decides nothing: the daemon checks who signed a command.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// version is set by the linker.
var version = "devel"

// memory is the runtime's limit. The program's text and stacks are small beside it.
const memory = 32 << 20

func main() { os.Exit(run()) }

// run is the link of this host, or what a command with -H starts.
func run() int {
	if len(os.Args) > 1 && os.Args[1] == service.OperatorArg {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		return service.Run("NATS", operate)
	}
	return service.Run("link", start)
}

// start reads the flags and serves until ctx is done.
func start(ctx context.Context, args []string, log zerolog.Logger) error {
	var o service.LinkOptions
	socket, err := service.Parse("link", args, o.Flags, o.Check)
	if err != nil {
		return err
	}
	if o.Name == "" {
		if o.Name, err = service.HostName(); err != nil {
			return service.UsageError{Err: err}
		}
	}
	debug.SetMemoryLimit(memory)
	b, err := bus.Connect(&o, version, log)
	if err != nil {
		return service.UsageError{Err: err}
	}
	defer b.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	host := bus.NewHost(socket, log)
	host.All = o.Answer
	if err := host.Serve(ctx, b, o.Name); err != nil {
		return err
	}
	dial := func(ctx context.Context) (api.Client, error) { return api.Dial(ctx, socket) }
	presence := bus.Presence{Dial: dial, Store: b.Store, Host: o.Name, Log: log}
	return service.Together(ctx, service.Lasting(presence.Run), b.Wait)
}
