package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// version is set by the linker.
var version = "devel"

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this command and of the daemon",
		Example: `  lineage version
  lineage version -o name      # only this command's`,
		Args:              argsCount(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		doc := text.VersionDocument{Head: text.Head("version"), Version: a.host.version, Go: runtime.Version(), API: api.Major}
		if a.host.abi != nil {
			doc.ABI = a.host.abi()
		}
		c, daemonErr := a.client(cmd.Context())
		if daemonErr == nil {
			defer c.Close()
			doc.Daemon, daemonErr = c.Version(cmd.Context())
		}
		return a.print(format.value, text.Version(&doc, a.socketPath(), daemonErr))
	}
	return cmd
}
