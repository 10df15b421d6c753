package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
)

// columnList is a flag that chooses columns of a table.
type columnList struct{ chosen []string }

func (c *columnList) String() string { return strings.Join(c.chosen, ",") }
func (c *columnList) Type() string   { return "list" }

func (c *columnList) Set(text string) error {
	c.chosen = nil
	for name := range strings.SplitSeq(text, ",") {
		c.chosen = append(c.chosen, strings.ToLower(strings.TrimSpace(name)))
	}
	return nil
}

// columnFlags adds the flags of a command that lists in a table. The returned function
// applies them, or returns an error. table: a table is shown; known: the columns that
// it can have, and before that, those of all tables of the command.
func (a *app) columnFlags(cmd *cobra.Command, format *choice, known ...string) (take func(table bool, known []string) error) {
	var c columnList
	cmd.Flags().Var(&c, "columns", "only these columns, `COLUMN,...`, in this order: "+strings.Join(known, ", "))
	cmd.Flags().BoolVar(&a.NoHeaders, "no-headers", false, "no line with the names of the columns")
	cmd.RegisterFlagCompletionFunc("columns", completeList(known))
	return func(table bool, known []string) error {
		if len(c.chosen) == 0 && !a.NoHeaders {
			return nil
		}
		if !table || format.value != "table" && format.value != "wide" {
			return exit.Usage("%s: --columns and --no-headers are for lists with -o table or wide", cmd.Name())
		}
		for _, name := range c.chosen {
			if !slices.Contains(known, name) {
				return exit.Usage("%s: %w", cmd.Name(), exit.Invalid("--columns", name, "some of "+strings.Join(known, ",")))
			}
		}
		a.Columns = c.chosen
		return nil
	}
}
