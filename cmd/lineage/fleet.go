package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// hostTime is how long one of many hosts may take to be reached and to answer.
const hostTime = 10 * time.Second

var errSocketWithHosts = exit.Usage("--socket is for the daemon of this host, not with -H")

// hostFlag adds -H to a command.
func hostFlag(cmd *cobra.Command) *hosts.List {
	list := &hosts.List{}
	cmd.Flags().VarP(list, "host", "H", "ask the daemons of these `HOSTs` over ssh: host[,host|@file]")
	return list
}

// onHosts asks the daemons of other hosts, and prints what they say.
func (a *app) onHosts(ctx context.Context, list hosts.List, format string, ask asker) error {
	answers, err := askHosts(ctx, a, list, hostTime, func(ctx context.Context, _ string, c api.Client) (*text.Listing, error) {
		l, err := ask(ctx, c)
		if err != nil {
			return nil, err
		}
		return &l, nil
	})
	if err != nil {
		return err
	}
	all := make([]text.HostAnswer, len(answers))
	for i, answer := range answers {
		all[i] = hostAnswer(answer.Host, answer.Value, answer.Err)
	}
	return a.printHosts(format, all)
}

// askHosts is hosts.Each, with the beginnings of ids.
func askHosts[T any](ctx context.Context, a *app, list hosts.List, timeout time.Duration, ask func(context.Context, string, api.Client) (T, error)) ([]hosts.Answer[T], error) {
	if a.socket != "" {
		return nil, errSocketWithHosts
	}
	return hosts.Each(ctx, a.dialHost, list, timeout, func(ctx context.Context, host string, c api.Client) (T, error) {
		return ask(ctx, host, finder{c})
	}), nil
}

func hostAnswer(host string, l *text.Listing, err error) text.HostAnswer {
	answer := text.HostAnswer{Host: host, Listing: l, Err: err}
	if err == nil {
		return answer
	}
	answer.Exit = exit.Code(err)
	if _, ok := errors.AsType[*hosts.Failure](err); ok {
		answer.Exit = api.ExitUnreachable
	}
	return answer
}

// printHosts prints what the hosts said, and gives the exit code as a told error. That a
// host does not have what was asked for is an answer, unless no host has it.
func (a *app) printHosts(format string, answers []text.HostAnswer) error {
	if err := a.Print(format, text.Hosts(answers)); err != nil {
		return err
	}
	found, failed := 0, 0
	for i := range answers {
		switch answer := &answers[i]; {
		case answer.Err == nil:
			found++
		case answer.Exit != api.ExitNotFound:
			failed++
		}
		if format == "name" && answers[i].Err != nil {
			a.Complain(fmt.Errorf("%s: %w", answers[i].Host, answers[i].Err))
		}
	}
	switch {
	case failed > 0:
		return exit.Told(api.ExitLeft)
	case found == 0:
		return exit.Told(api.ExitNotFound)
	}
	return nil
}
