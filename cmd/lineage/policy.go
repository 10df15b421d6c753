package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check the policy file, and show what is in force",
		Long: `The policy says what lineage may do automatically on this host; without a file
it only observes. The daemon reads ` + policy.DefaultFile + ` when it starts and
on SIGHUP. An invalid file is rejected entirely; the previous policy stays in
force.`,
		Example: `  lineage policy check ./policy.yaml
  lineage policy show
  lineage policy explain 4130`,
		Args:                       cli.Subcommand,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.policyCheckCommand(), a.policyShowCommand(),
		a.policyExplainCommand(), a.policyResumeCommand())
	return cmd
}

// policyCheck is the document of `policy check -o json`.
type policyCheck struct {
	api.Head
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Mode     string         `json:"mode,omitempty"`
	Rules    map[string]int `json:"rules,omitempty"` // how many, by kind
	Warnings []string       `json:"warnings,omitempty"`
	Error    *policy.Error  `json:"error,omitempty"`
}

// take records the contents of a valid policy, and what this host cannot do of it.
func (c *policyCheck) take(p *policy.Policy, now time.Time, unrefused func() bool) {
	c.OK, c.Mode = true, p.Mode
	c.Rules = map[string]int{"agents": len(p.Agents), "containers": len(p.Containers), "keep": len(p.Keep)}
	for _, rule := range p.Keep {
		if rule.Until.Time().Before(now) {
			c.Warnings = append(c.Warnings, fmt.Sprintf("keep rule %q has no effect: until %s is over",
				rule.Name, rule.Until))
		}
	}
	if p.Refuses() && unrefused() {
		c.Warnings = append(c.Warnings, policy.Unrefused)
	}
}

func (c *policyCheck) String() string {
	return fmt.Sprintf("%s: ok, mode %s, %s, %s, %s", display.Text(c.File), c.Mode,
		display.Count(c.Rules["agents"], "agent rule"),
		display.Count(c.Rules["containers"], "rule for containers", "rules for containers"),
		display.Count(c.Rules["keep"], "keep rule"))
}

func (a *app) policyCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a policy file; needs no daemon and no root",
		Long: `Read a policy file as the daemon would (default ` + policy.DefaultFile + `), and
change nothing. Each mistake is reported as FILE:LINE:COLUMN, and the exit
code is 1; it is 3 if there is no such file. Root is also told if the file
guards signals and this kernel cannot refuse them.`,
		Example: `  lineage policy check
  lineage policy check ./policy.yaml && sudo systemctl reload lineage`,
		Args:              cli.Args(0, 1, "FILE"),
		ValidArgsFunction: cli.CompleteFiles,
	}
	format := formatFlag(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		doc := policyCheck{Head: api.NewHead("policy_check"), File: policy.DefaultFile}
		if len(args) > 0 {
			doc.File = args[0]
		}
		p, err := policy.Load(doc.File)
		bad, mistaken := errors.AsType[*policy.Error](err)
		switch {
		case mistaken:
			doc.Error = bad
		case err != nil:
			return cli.FileError(err)
		default:
			doc.take(p, a.Now(), a.host.unrefused)
		}
		if doc.OK || format.Value == "json" || format.Value == "jsonl" {
			err = a.Print(format.Value, &text.Listing{
				Doc: doc, Items: []any{doc}, Names: []string{doc.File},
				Text: func(p *text.Page) { p.Line("%s", doc.String()) },
			})
		}
		for _, warning := range doc.Warnings {
			a.Say("policy check: %s", warning)
		}
		if mistaken {
			// Editors find the place by this line, so it has no prefix.
			for _, e := range bad.All() {
				fmt.Fprintln(a.Stderr, display.Text(e.Error()))
			}
			return cli.Silent(api.ExitFailed)
		}
		return err
	}
	return cmd
}

func (a *app) policyShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the policy in force, and where each value came from",
		Example: `  lineage policy show
  lineage policy show -o json | jq '.items[] | select(.origin != "default")'`,
	}
	format := formatFlag(cmd)
	cmd.RunE = asking(a, format, text.Policy, func(ctx context.Context, c api.Client, _ []string) (*api.Policy, error) {
		return c.Policy(ctx)
	})
	return cmd
}

func (a *app) policyExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain PID",
		Short: "Show which rules match a process, and what they do to it",
		Example: `  lineage policy explain 4130
  lineage policy explain 4130 --json`,
		ValidArgsFunction: a.completeMember,
	}
	format := formatFlag(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := cli.Args(1, 1, "PID")(cmd, args); err != nil {
			return err
		}
		if _, err := api.ParseRef(args[0]); err != nil {
			return cli.Usage("explain: %w", cli.Invalid("PID", args[0], "PID or PID@START"))
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
		Short: "Close the circuit breaker: allow automatic ends again",
		Long: `Close the circuit breaker for all users. It opens for a user when as many of the
user's sessions were ended automatically within a minute as the policy's
breaker.ends_per_minute allows. Ends that are due then begin at once: look at
"lineage policy show" and the audit log first.`,
		Example: `  lineage policy show      # is it open, and since when?
  sudo lineage policy resume`,
	}
	format := formatFlag(cmd)
	closed := func(doc *api.Policy) *text.Listing {
		l := text.Policy(doc)
		l.Text = func(p *text.Page) {
			p.Line("the circuit breaker is closed, mode %s",
				display.Text(doc.Mode))
		}
		return l
	}
	cmd.RunE = asking(a, format, closed, func(ctx context.Context, c api.Client, _ []string) (*api.Policy, error) {
		return c.PolicyResume(ctx)
	})
	return cmd
}
