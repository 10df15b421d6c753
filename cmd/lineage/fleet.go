package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

var errSocketWithHosts = exit.Usage("--socket is for the daemon of this host, not with -H")

// hostFlag adds -H to a command.
func hostFlag(cmd *cobra.Command) *hosts.List {
	list := &hosts.List{}
	cmd.Flags().VarP(list, "host", "H", "ask the daemons of `HOST,...` over ssh; @FILE has a host on each line")
	cmd.RegisterFlagCompletionFunc("host", func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeList(hosts.Known())(cmd, args, begun)
	})
	return list
}

// hostDialer connects to the daemons of other hosts, which accept the beginnings of ids.
func (a *app) hostDialer() (hosts.Dialer, error) {
	if a.socket != "" {
		return nil, errSocketWithHosts
	}
	return func(ctx context.Context, host string) (api.Client, error) {
		c, err := a.dialHost(ctx, host)
		if err != nil {
			return nil, err
		}
		return finder{c}, nil
	}, nil
}

// onHosts asks the daemons of other hosts, and prints what they say.
func (a *app) onHosts(ctx context.Context, list hosts.List, format string, ask asker) error {
	dial, err := a.hostDialer()
	if err != nil {
		return err
	}
	answers := hosts.Each(ctx, dial, list, hosts.Time, func(ctx context.Context, _ string, c api.Client) (*text.Listing, error) {
		return ask(ctx, c)
	})
	if !slices.ContainsFunc(answers, func(answer text.HostAnswer) bool { return answer.Listing == nil || answer.Listing.Empty == "" }) {
		a.explain(format, answers[0].Listing.Empty)
	}
	return hosts.Print(&a.Console, format, answers)
}
