//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// operatorMemory bounds what hosts and servers can make an operator's program take. It dies of more.
const operatorMemory = 1 << 30

// operate brings the requests of an operator's command to hosts, until its stdin ends. It writes a line when it is
// ready, and the hosts that are there for each line of stdin.
func operate(ctx context.Context, args []string, _ zerolog.Logger) error {
	var o service.LinkOptions
	socket, err := service.Parse("NATS", args, o.Flags, o.Check)
	if err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_DATA,
		&unix.Rlimit{Cur: operatorMemory, Max: operatorMemory}); err != nil {
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
		for told := bufio.NewScanner(os.Stdin); told.Scan(); { // it ends with the command
			var said service.Hosts
			if said.Names, err = b.Hosts(ctx); err != nil {
				said.Error = err.Error()
			}
			_ = json.NewEncoder(os.Stdout).Encode(&said) // the command may be gone
		}
	}()
	fmt.Println("ready")
	return b.Proxy(ctx, ln, version)
}
