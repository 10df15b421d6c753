//go:build !man

// Command lineage follows every process that an agent starts, and ends them
// all.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
)

func main() {
	dispatch(os.Args)
	a := &app{
		Console: cli.Console{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			Env: os.Getenv, Now: time.Now, Interrupts: interrupts},
		dial: api.Dial, dialHost: hosts.Dial, host: thisHost(),
	}
	os.Exit(a.main(context.Background(), os.Args[1:]))
}

func interrupts() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	return c, func() { signal.Stop(c) }
}
