//go:build linux

// Lineage-export sends what the daemon reports to other systems: traces and logs by
// OTLP/HTTP, OCSF records to a file, receipts to NATS servers; and serves metrics on TCP.
//
// It is a program of its own because it is a network client, and the daemon's binary, which
// runs as root, has none. It only reads from the daemon, and needs no privilege.
package main

import (
	"cmp"
	"context"
	"os"
	"runtime/debug"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// version is set by the linker.
var version = "devel"

// memory is the runtime's limit. The program's text and stacks are small beside it.
const memory = 44 << 20

func main() { os.Exit(service.Run("export", start)) }

// start reads the flags and follows the daemon until ctx is done.
func start(ctx context.Context, args []string, log zerolog.Logger) error {
	var o service.ExportOptions
	socket, err := service.Parse("export", args, o.Flags, o.Check)
	if err != nil {
		return err
	}
	o.State = cmp.Or(o.State, os.Getenv("STATE_DIRECTORY"))
	debug.SetMemoryLimit(memory)
	e, err := build(ctx, &o, socket, log)
	if err != nil {
		return err
	}
	return e.run(ctx)
}
