package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// Both are set by the linker; commit ends with + if there were changes.
var version, commit = "devel", ""

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this command and of the daemon",
		Long: `Print the version of this command, the commit that it was built from (+: with
changes), and the SHA-256 of the BPF objects in it; and the version of the
daemon. Commands and a daemon with the same api number work together. A daemon
that replaces one with another abi takes its sessions over.`,
		Example: `  lineage version
  lineage version -o name      # only this command's`,
		Args:              argsCount(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		doc := text.VersionDocument{Head: text.Head("version"), Version: a.host.version, Commit: a.host.commit, Go: runtime.Version(), API: api.Major}
		if a.host.abi != nil {
			doc.ABI, doc.Objects = a.host.abi(), a.host.objects()
		}
		c, daemonErr := a.client(cmd.Context())
		if daemonErr == nil {
			defer c.Close()
			doc.Daemon, daemonErr = c.Version(cmd.Context())
		}
		return a.Print(format.value, text.Version(&doc, a.socketPath(), daemonErr))
	}
	return cmd
}
