package main

import (
	"io"
	"net"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
)

func (a *app) stdioCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stdio",
		Short: "Connect stdin and stdout to the daemon, for -H",
		Long: `Connect stdin and stdout to the daemon's socket. "lineage ls -H HOST" runs this
command on HOST over ssh. It has the rights of the user that ssh logs in as.`,
		Example: `  ssh web1 lineage stdio    # what "lineage ls -H web1" runs`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var d net.Dialer
			conn, err := d.DialContext(cmd.Context(), "unix", a.socketPath())
			if err != nil {
				return &api.UnreachableError{Socket: a.socketPath(), Err: err}
			}
			defer conn.Close()
			// If either direction ends, both are closed: HTTP does not use half-closed connections.
			over := make(chan error, 2)
			go func() { _, err := io.Copy(conn, a.Stdin); over <- err }()
			go func() { _, err := io.Copy(a.Stdout, conn); over <- err }()
			if err := <-over; err != nil {
				return &api.UnreachableError{Socket: a.socketPath(), Err: err}
			}
			return nil
		},
	}
}
