package main

import (
	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/supervise"
)

// dispatchShim becomes the command that run starts, if that is what this
// process is for. It is no command of cobra's: its arguments are not for
// people, and nothing may come between fork and exec.
func dispatchShim(args []string) {
	if len(args) > 1 && args[1] == supervise.ShimArg {
		supervise.Shim(args[2:])
	}
}

// thisHost is the machine that we run on.
func thisHost() host {
	return host{version: version, doctor: func() api.Doctor { return api.Doctor{} }, commands: func(a *app) []*cobra.Command {
		return []*cobra.Command{a.runCommand(supervise.Run, a.dial)}
	}}
}
