package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// asking asks the daemon, with the command's arguments, and prints what it says.
func asking[T any](a *app, format *choice, list func(*T) text.Listing, ask func(context.Context, api.Client, []string) (*T, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client(cmd.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		doc, err := ask(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		return a.print(format.value, list(doc))
	}
}
