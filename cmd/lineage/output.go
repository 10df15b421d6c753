package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// formatFlag adds -o to a command, with those formats; none: with all.
func formatFlag(cmd *cobra.Command, formats ...string) *cli.Choice {
	if len(formats) == 0 {
		formats = text.Formats
	}
	f := &cli.Choice{Value: "table", Words: formats}
	cmd.Flags().VarP(f, "output", "o", "print this `FORMAT`: "+strings.Join(formats[:len(formats)-1],
		", ")+" or "+formats[len(formats)-1])
	cmd.Flags().BoolFunc("json", "the same as -o json", func(text string) error {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("true or false")
		}
		if on {
			f.Value = "json"
		}
		return nil
	})
	return f
}

// columnFlags adds the flags of a command that lists in a table. The returned function
// applies them, or returns an error. table: a table is shown; known: the columns that
// it can have, and before that, those of all tables of the command.
func (a *app) columnFlags(cmd *cobra.Command, format *cli.Choice,
	known ...string) (take func(table bool, known []string) error) {
	var c cli.List
	cmd.Flags().Var(&c, "columns", "only these columns, `COLUMN,...`, in this order: "+strings.Join(known, ", "))
	cmd.RegisterFlagCompletionFunc("columns", cli.CompleteList(known))
	return func(table bool, known []string) error {
		if len(c.Names) == 0 {
			return nil
		}
		if !table || format.Value != "table" && format.Value != "wide" {
			return cli.Usage("%s: --columns is for lists with -o table or wide", cmd.Name())
		}
		for _, name := range c.Names {
			if !slices.Contains(known, name) {
				return cli.Usage("%s: %w", cmd.Name(),
					cli.Invalid("--columns", name, "some of "+strings.Join(known, ",")))
			}
		}
		a.Columns = c.Names
		return nil
	}
}

// explainEmpty says why this host lists nothing. Only callers that may read all sessions get the
// counters of the host.
func (a *app) explainEmpty(ctx context.Context, c api.Client, format, why string) {
	if !a.explain(format, why) || a.host.euid() == 0 {
		return
	}
	if s, err := c.Status(ctx); err == nil && s.Counters == nil {
		a.Say("sessions of other users are hidden; run with sudo to see them")
	}
}

// explain says why nothing is listed, on a terminal and with a table: other formats are for
// programs.
func (a *app) explain(format, why string) bool {
	_, tty := cli.Terminal(a.Stderr)
	said := tty && isTable(format)
	if said {
		a.Say("%s", why)
	}
	return said
}

func isTable(format string) bool { return format == "table" || format == "wide" }

// answer asks the daemon of this host, or those of others, and prints what they say.
func (a *app) answer(ctx context.Context, remote hosts.List, format string, ask query.Asker) error {
	if len(remote) > 0 {
		return a.onHosts(ctx, remote, format, ask)
	}
	return a.with(ctx, func(c api.Client) error {
		l, err := ask(ctx, c)
		if err != nil {
			return err
		}
		if l.Also != "" && isTable(format) {
			a.Say("%s", l.Also)
		}
		if l.Empty != "" {
			a.explainEmpty(ctx, c, format, l.Empty)
		}
		return a.Print(format, l)
	})
}

// briefly asks a daemon that may take only that long. No answer is not an error.
func (a *app) briefly(cmd *cobra.Command, limit time.Duration, ask func(context.Context, api.Client)) {
	ctx, cancel := context.WithTimeout(cmd.Context(), limit)
	defer cancel()
	if c, err := a.client(ctx); err == nil {
		defer c.Close()
		ask(ctx, c)
	}
}

// asking asks the daemon, with the command's arguments, and prints the answer.
func asking[T any](
	a *app,
	format *cli.Choice,
	list func(*T) *text.Listing,
	ask func(context.Context, api.Client, []string) (*T, error),
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.answer(cmd.Context(), nil, format.Value, func(ctx context.Context, c api.Client) (*text.Listing, error) {
			doc, err := ask(ctx, c, args)
			if err != nil {
				return nil, err
			}
			return list(doc), nil
		})
	}
}
