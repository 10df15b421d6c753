package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// completionTime bounds how long a TAB waits for the daemon.
const completionTime = time.Second

// completeSession completes ids and names of sessions in state.
func (a *app) completeSession(state string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if cmd.Name() != "end" && len(args) > 0 {
			return nil, none
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionTime)
		defer cancel()
		c, err := a.client(ctx)
		if err != nil {
			return nil, none
		}
		defer c.Close()
		list, err := c.Sessions(ctx, state, "")
		if err != nil {
			return nil, none
		}
		return sessionWords(list.Items, args, begun), none
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
			what += ": " + text.Fit(display.Command(s.Root.Argv, s.Root.Comm, s.Root.ArgvTruncated, display.CommandBytes), 60)
		}
		for _, word := range []string{s.Name, s.ID} {
			if word != "" && word == display.Text(word) && strings.HasPrefix(word, begun) {
				words = append(words, cobra.CompletionWithDesc(word, what))
			}
		}
	}
	return words
}
