package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/console"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// formatFlag adds -o to a command.
func formatFlag(cmd *cobra.Command) *choice {
	f := &choice{"table", text.Formats}
	cmd.Flags().VarP(f, "output", "o", "`format`: table, wide, json, jsonl, yaml or name")
	cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(f.words, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolFunc("json", "the same as -o json", func(text string) error {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("must be true or false")
		}
		if on {
			f.value = "json"
		}
		return nil
	})
	return f
}

// explainEmpty says on a terminal why nothing is listed, and only with a table: other
// formats are for programs.
func (a *app) explainEmpty(format *choice, why string) {
	if _, tty := console.Terminal(a.Stderr); !tty || format.value != "table" && format.value != "wide" {
		return
	}
	a.Say("%s", why)
	if a.host.euid() != 0 {
		a.Say("sessions of other users are hidden; run with sudo to see them")
	}
}

// asking asks the daemon, with the command's arguments, and prints the answer.
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
		return a.Print(format.value, list(doc))
	}
}
