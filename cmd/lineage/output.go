package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lineage-ebpf/lineage/api"
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

// explainEmpty says on a terminal why nothing is listed. What follows a table is for
// people only.
func (a *app) explainEmpty(format *choice, why string) {
	if _, tty := terminal(a.stderr); !tty || format.value != "table" && format.value != "wide" {
		return
	}
	a.say("%s", why)
	if a.host.euid() != 0 {
		a.say("sessions of other users are hidden; run with sudo to see them")
	}
}

// print writes l to stdout: all of it, or nothing.
func (a *app) print(format string, l text.Listing) error {
	return l.Write(a.page(a.stdout, format == "wide"), format)
}

func (a *app) page(w io.Writer, wide bool) *text.Page {
	p := text.NewPage(w, a.now())
	p.Wide, p.Width = wide, columns(w)
	p.Columns, p.NoHeaders = a.columns, a.noHeaders
	p.Color = a.color.value == "always"
	if a.color.value == "auto" {
		p.Color = p.Width > 0 && a.env("NO_COLOR") == "" && a.env("TERM") != "dumb"
	}
	return p
}

// columns is the width of a terminal, 0 if w is none.
func columns(w any) int {
	size, ok := terminal(w)
	if ok && size.Col == 0 {
		return 80
	}
	return int(size.Col)
}

// terminal gives the size of w if it is a terminal.
func terminal(w any) (unix.Winsize, bool) {
	f, ok := w.(*os.File)
	if !ok {
		return unix.Winsize{}, false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return unix.Winsize{}, false
	}
	return *size, true
}

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
