package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/cmd/lineage/exit"
	"github.com/lineage-ebpf/lineage/cmd/lineage/help"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/link"
	"github.com/lineage-ebpf/lineage/cmd/lineage/natslink"
	"github.com/lineage-ebpf/lineage/cmd/lineage/programs"
)

const fleetLong = `Ask the hosts whose links are connected to NATS servers, or those of -H, as -H
does over ssh: with the same flags, output and exit codes. "_" in the name of a
host is shown as ".", as host names have it.

Links answer with --answer only, and what users of the group lineage may read.
"end" needs --sign, and "top" only shows.

The servers and the operator's identity are those of the flags, else of the
variables LINEAGE_SERVER, LINEAGE_NKEY, LINEAGE_CREDS and LINEAGE_CA.
docs/FLEET.md has the rights that an operator needs.`

// fleetVerbs are the commands that can ask hosts over NATS, with an example.
var fleetVerbs = map[string]string{
	"ls": "ls --left", "tree": "tree build", "why": "why :8080", "history": "history --since 24h", "top": "top",
	"end": `end claude --sign ~/.ssh/id_ed25519 --reason "case 7"`, "command": "command case7.json --sign ~/.ssh/id_ed25519",
}

func (a *app) fleetCommand() *cobra.Command {
	var o link.Options
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Ask many hosts over NATS, and end sessions there",
		Long:  fleetLong,
		Example: `  lineage fleet ls --server tls://nats.example.org:4222 --nkey ann.nk
  lineage fleet why :8080 -H web1,web2
  lineage fleet end claude --sign ~/.ssh/id_ed25519 --reason "case 7"`,
		Args:                       help.Subcommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.OperatorFlags(set)
	cmd.PersistentFlags().AddFlagSet(set)
	for _, verb := range []*cobra.Command{a.lsCommand(), a.treeCommand(), a.topCommand(), a.whyCommand(), a.historyCommand(), a.endCommand(), a.commandCommand()} {
		verb.Long = fmt.Sprintf("As \"lineage %s -H\" does, over NATS.", verb.Name())
		verb.Example = "  lineage fleet " + fleetVerbs[verb.Name()]
		verb.Flag("host").Usage = "ask only `HOST,...`; @FILE has a host on each line (default those that are there)"
		verb.ValidArgsFunction = cobra.NoFileCompletions
		cmd.AddCommand(verb)
	}
	cmd.PersistentPreRunE = func(verb *cobra.Command, args []string) error {
		if verb.Root().PersistentPreRun(verb, args); verb == cmd {
			return nil
		}
		if sign := verb.Flag("sign"); verb.Name() == "end" && !sign.Changed {
			return exit.Usage("end: over NATS hosts take only signed commands; give --sign")
		}
		if verb.Name() == "top" {
			if err := verb.Flags().Set("read-only", "true"); err != nil {
				return err
			}
		}
		return a.join(verb, &o)
	}
	return cmd
}

// join connects to the servers, and has the command ask over them. Without -H it asks all hosts that are there.
func (a *app) join(verb *cobra.Command, o *link.Options) error {
	if err := natslink.FromEnv(verb.Flags(), o, a.Env); err != nil {
		return err
	}
	program, err := programs.Find(link.Program)
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	if a.link, err = natslink.Start(verb.Context(), program, o); err != nil {
		return err
	}
	a.dialHost = a.link.Dial
	if verb.Flags().Changed("host") {
		return nil
	}
	list, err := a.link.Hosts(verb.Context())
	if err != nil {
		return err
	}
	remote := verb.Flag("host").Value.(*hosts.List)
	*remote = list
	return nil
}
