package main

import (
	"context"
	"fmt"
	"os/user"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/query"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

// hostFlag adds -H to a command. The hosts of its groups are in the list when the command runs.
func (a *app) hostFlag(cmd *cobra.Command) *hosts.List {
	f := &hosts.Flag{Env: a.Env}
	cmd.Flags().VarP(f, "host", "H", "ask the daemons of `HOST,...` over ssh, or of a @GROUP of hosts.yaml")
	return &f.List
}

// reach connects to the servers of the groups that -H names. A host that ssh reaches, or another group, is asked once.
func (a *app) reach(cmd *cobra.Command) error {
	set := cmd.Flag("host")
	if set == nil {
		return nil
	}
	f, ok := set.Value.(*hosts.Flag)
	if !ok || len(f.Groups) == 0 {
		return nil
	}
	over := make(map[string]*hosts.NATSLink)
	for _, host := range f.List {
		over[hosts.Bare(host)] = nil
	}
	joined := make(map[string]*hosts.NATSLink)
	for i := range f.Groups {
		g := &f.Groups[i]
		var err error
		l := joined[g.Key]
		if l == nil {
			if l, err = a.join(cmd.Context(), g); err != nil {
				return err
			}
			joined[g.Key] = l
		}
		list := hosts.List(g.Hosts)
		if len(list) == 0 {
			if list, err = l.Hosts(); err != nil {
				return err
			}
		}
		for _, host := range list {
			if _, twice := over[host]; !twice {
				over[host] = l
				f.List = append(f.List, host)
			}
		}
	}
	ssh := a.dialHost
	a.dialHost = func(ctx context.Context, host string) (api.Client, error) {
		if l := over[host]; l != nil {
			return l.Dial(ctx, host)
		}
		return ssh(ctx, host)
	}
	return nil
}

func (a *app) join(ctx context.Context, g *hosts.Group) (*hosts.NATSLink, error) {
	name := "?" // which is refused
	if u, err := user.Current(); err == nil {
		name = service.NameOf(u.Username)
	}
	o, err := g.Link(name)
	if err != nil {
		return nil, err
	}
	program, err := findProgram(service.LinkProgram)
	if err != nil {
		return nil, fmt.Errorf("NATS: %w", err)
	}
	l, err := hosts.StartNATSLink(ctx, program, o)
	if err == nil {
		a.links = append(a.links, l)
	}
	return l, err
}

// hostDialer connects to the daemons of other hosts, that -H names.
func (a *app) hostDialer() (hosts.Dialer, error) {
	if a.socket != "" {
		return nil, cli.Usage("--socket is for the daemon of this host, not with -H")
	}
	return a.dialHost, nil
}

// onHosts asks the daemons of other hosts, and prints what they say.
func (a *app) onHosts(ctx context.Context, list hosts.List, format string, ask query.Asker) error {
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
