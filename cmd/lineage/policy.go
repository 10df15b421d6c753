package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check the policy file, and see what holds",
		Long: `The policy says what lineage may do by itself on this host; without a file it
observes. The daemon reads ` + policy.DefaultFile + ` at its start and on SIGHUP; a file with
a mistake in it is refused as a whole, and what held before holds on.`,
		Args:                       subcommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.policyCheckCommand(), a.policyShowCommand(), a.policyExplainCommand(), a.policyResumeCommand())
	return cmd
}

// policyCheck is what `policy check -o json` prints.
type policyCheck struct {
	api.Head
	File  string        `json:"file"`
	OK    bool          `json:"ok"`
	Mode  string        `json:"mode,omitempty"`
	Error *policy.Error `json:"error,omitempty"`
}

func (a *app) policyCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Read a policy file as the daemon would; needs no daemon and no root",
		Long: `Read a policy file as the daemon would (default ` + policy.DefaultFile + `), and change
nothing. The first mistake is told as FILE:LINE:COLUMN, and the exit code is 1.`,
		Args: argsCount(0, 1, "FILE"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault // files
		},
	}
	format := formatFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		doc := policyCheck{Head: text.Head("policy_check"), File: policy.DefaultFile}
		if len(args) > 0 {
			doc.File = args[0]
		}
		p, err := policy.Load(doc.File)
		bad, mistaken := errors.AsType[*policy.Error](err)
		switch {
		case mistaken:
			doc.Error = bad
		case err != nil:
			return err
		default:
			doc.OK, doc.Mode = true, p.Mode
		}
		if doc.OK || format.value == "json" || format.value == "jsonl" {
			err = a.print(format.value, text.Listing{
				Doc: doc, Items: []any{doc}, Names: []string{doc.File},
				Text: func(p *text.Page) { p.Line("%s: ok, mode %s", display.Text(doc.File), doc.Mode) },
			})
		}
		if mistaken {
			// Editors find the place by it: nothing stands before it.
			fmt.Fprintln(a.stderr, display.Text(bad.Error()))
			return &exitError{code: api.ExitFailed}
		}
		return err
	}
	return cmd
}

func (a *app) policyShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "show",
		Short:             "Print the policy that holds, and where each value came from",
		Args:              argsCount(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := formatFlag(cmd)
	cmd.RunE = asking(a, format, text.Policy, func(ctx context.Context, c api.Client, _ []string) (*api.Policy, error) {
		return c.Policy(ctx)
	})
	return cmd
}

func (a *app) policyExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "explain PID",
		Short:             "Say which rules match a process now, and what they do to it",
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := formatFlag(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := argsCount(1, 1, "PID")(cmd, args); err != nil {
			return err
		}
		if _, err := api.ParseRef(args[0]); err != nil {
			return usage("explain %s: not a process; name it as PID or PID@START", args[0])
		}
		return nil
	}
	cmd.RunE = asking(a, format, text.Explain, func(ctx context.Context, c api.Client, args []string) (*api.PolicyExplain, error) {
		return c.PolicyExplain(ctx, args[0])
	})
	return cmd
}

func (a *app) policyResumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Close the circuit breaker: the daemon may end by itself again",
		Long: `Close the circuit breaker, which opens when the daemon has started as many ends
by itself within a minute as the policy's breaker.ends_per_minute allows. What
is due is then done at once: look at "lineage policy show" and the audit log first.`,
		Args:              argsCount(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := formatFlag(cmd)
	closed := func(doc *api.Policy) text.Listing {
		l := text.Policy(doc)
		l.Text = func(p *text.Page) { p.Line("the circuit breaker is closed, mode %s", display.Text(doc.Mode)) }
		return l
	}
	cmd.RunE = asking(a, format, closed, func(ctx context.Context, c api.Client, _ []string) (*api.Policy, error) {
		return c.PolicyResume(ctx)
	})
	return cmd
}
