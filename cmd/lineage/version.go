package main

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
)

// version is set by the linker.
var version = "devel"

// versionDocument is what `version -o json` prints.
type versionDocument struct {
	api.Head
	Version string       `json:"version"`
	Go      string       `json:"go"`
	API     int          `json:"api"`
	ABI     string       `json:"abi,omitempty"`
	Daemon  *api.Version `json:"daemon,omitempty"` // absent: none answers
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "version",
		Short:             "Print the versions of this command and of the daemon",
		Args:              argsCount(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		doc := versionDocument{Head: head("version"), Version: a.host.version, Go: runtime.Version(), API: api.Major}
		if a.host.abi != nil {
			doc.ABI = a.host.abi()
		}
		c, daemonErr := a.client(cmd.Context())
		if daemonErr == nil {
			defer c.Close()
			doc.Daemon, daemonErr = c.Version(cmd.Context())
		}
		return a.print(format.value, listing{
			doc: doc, items: []any{doc}, names: []string{doc.Version},
			text: func(p *page) { writeVersion(p, &doc, a.socketPath(), daemonErr) },
		})
	}
	return cmd
}

func writeVersion(p *page, doc *versionDocument, socket string, daemonErr error) {
	var t table
	t.row("lineage", doc.Version)
	t.row("go", doc.Go)
	t.row("api", fmt.Sprint(doc.API))
	if doc.ABI != "" {
		t.row("abi", doc.ABI)
	}
	// That no daemon runs is no error here; that another one answers is worth
	// its line.
	foreign, _ := errors.AsType[*api.Error](daemonErr)
	switch {
	case doc.Daemon != nil:
		v := doc.Daemon
		t.row("daemon", display.Text(fmt.Sprintf("%s, api %d, abi %s, level %d, pid %d, %s", v.Version, v.API, v.ABI, v.Level, v.PID, socket)))
	case foreign != nil:
		t.row("daemon", display.Text(foreign.Message))
	default:
		t.row("daemon", display.Text("none at "+socket))
	}
	t.write(p)
}
