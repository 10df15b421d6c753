//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/link"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// operatorMemory bounds what hosts and servers can make an operator's program take. It dies of more.
const operatorMemory = 1 << 30

// operate brings the requests of an operator's command to hosts, until its stdin ends. It writes a line when it is
// ready.
func operate(ctx context.Context, args []string, _ zerolog.Logger) error {
	flags := pflag.NewFlagSet(link.Program, pflag.ContinueOnError)
	var o link.Options
	o.OperatorFlags(flags)
	socket, err := service.Parse("NATS", flags, args)
	if err == nil {
		if err = o.Check(); err != nil {
			err = service.UsageError{Err: err}
		}
	}
	if err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: operatorMemory, Max: operatorMemory}); err != nil {
		return err
	}
	b, err := bus.Reach(&o, version, zerolog.Nop())
	switch {
	case errors.Is(err, bus.ErrDown):
		return &api.Error{Message: err.Error(), Exit: api.ExitUnreachable}
	case err != nil:
		return service.UsageError{Err: err}
	}
	defer b.Close()
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer os.Remove(filepath.Dir(socket)) // was made for it; the command may have been killed
	defer ln.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the command
	}()
	fmt.Println("ready")
	return b.Proxy(ctx, ln, version)
}
