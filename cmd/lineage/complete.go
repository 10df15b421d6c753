package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// completionTime bounds how long a TAB waits for the daemon.
const completionTime = time.Second

// completeSession completes ids and names of sessions in state, the last that ended first, and ports.
func (a *app) completeSession(state string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if strings.HasPrefix(begun, ":") {
			return a.ports(cmd, begun), none
		}
		var words []cobra.Completion
		a.briefly(cmd, completionTime, func(ctx context.Context, c api.Client) {
			if list, err := c.Sessions(ctx, state, ""); err == nil {
				slices.SortStableFunc(list.Items, func(a, b api.Session) int {
					return cmp.Or(b.Ended, &time.Time{}).Compare(*cmp.Or(a.Ended, &time.Time{}))
				})
				words = sessionWords(list.Items, args, begun)
			}
		})
		return words, none | cobra.ShellCompDirectiveKeepOrder
	}
}

func sessionWords(sessions []api.Session, given []string, begun string) []cobra.Completion {
	var words []cobra.Completion
	for i := range sessions {
		s := &sessions[i]
		if slices.Contains(given, s.ID) || s.Name != "" && slices.Contains(given, s.Name) {
			continue
		}
		what := text.Title(s)
		if s.Root != nil {
			argv, comm, truncated := display.Began(s.Root)
			what += ": " + text.Fit(display.Brief(argv, comm, truncated, display.CommandBytes), 60)
		}
		for _, word := range []string{s.Name, s.ID} {
			if word != "" && word == display.Text(word) && strings.HasPrefix(word, begun) {
				words = append(words, cobra.CompletionWithDesc(word, what))
			}
		}
	}
	return words
}

// completeFlags completes the flags that take one of a few words, and has the shell complete file names.
func completeFlags(cmd *cobra.Command) {
	complete := func(f *pflag.Flag) {
		takes, _ := pflag.UnquoteUsage(f)
		if c, ok := f.Value.(*cli.Choice); ok {
			cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(c.Words,
				cobra.ShellCompDirectiveNoFileComp))
		} else if takes == "FILE" {
			cmd.RegisterFlagCompletionFunc(f.Name, cli.CompleteFiles)
		}
	}
	cmd.Flags().VisitAll(complete)
	cmd.PersistentFlags().VisitAll(complete)
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
}

// completeMember completes PIDs of live members, with what they run, ports of sessions, and for why files.
func (a *app) completeMember(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion,
	cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	switch {
	case cmd.Name() != "keep" && len(args) > 0:
		return nil, none
	case strings.HasPrefix(begun, ":"):
		return a.ports(cmd, begun), none
	case cmd.Name() == "why":
		return a.members(cmd, args, begun), cobra.ShellCompDirectiveDefault
	}
	return a.members(cmd, args, begun), none
}

func (a *app) members(cmd *cobra.Command, given []string, begun string) (words []cobra.Completion) {
	a.briefly(cmd, completionTime, func(ctx context.Context, c api.Client) {
		trees, _ := query.Trees(ctx, c, &api.Selection{All: true}, false)
		for _, t := range trees {
			for i := range t.Nodes {
				p := &t.Nodes[i].Process
				if pid := strconv.Itoa(p.PID); p.State == api.StateLive &&
					strings.HasPrefix(pid, begun) && !slices.Contains(given, pid) {
					words = append(words, cobra.CompletionWithDesc(pid,
						text.Fit(display.Brief(p.Argv, p.Comm, p.ArgvTruncated, display.CommandBytes), 60)))
				}
			}
		}
	})
	return words
}

func (a *app) ports(cmd *cobra.Command, begun string) (words []cobra.Completion) {
	a.briefly(cmd, completionTime, func(ctx context.Context, c api.Client) {
		list, err := c.Sessions(ctx, "live", "")
		if err != nil {
			return
		}
		for i := range list.Items {
			for _, port := range list.Items[i].Ports {
				if word := fmt.Sprintf(":%d", port); strings.HasPrefix(word, begun) {
					words = append(words, cobra.CompletionWithDesc(word, text.Title(&list.Items[i])))
				}
			}
		}
	})
	return words
}
