package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

const mcpProgram = "lineage-mcp"

func mcpCommand(socket func() string) *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve an agent's questions about what it left running (MCP)",
		Long: `Serve the Model Context Protocol on stdin and stdout, for an agent's
configuration. The tools are list_running, explain and ports, which change
nothing, end_branch, which needs the token of a plan, and keep, which the policy
has to allow. They are about the session of the agent that starts the server:
the daemon gives it a member's rights, and nothing about other sessions.

Without a daemon, tools answer at once that none runs.`,
		Example: `  claude mcp add --scope user lineage -- lineage mcp
  codex mcp add lineage -- lineage mcp`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return become(cmd, mcpProgram, "-socket", socket())
		},
	}
}

func exportCommand(socket func() string) *cobra.Command {
	var o service.ExportOptions
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Send events as traces, logs and findings to other systems",
		Long: `Send what the daemon reports to an OpenTelemetry Collector (--otlp), and as OCSF
records to a file (--ocsf), until Ctrl-C. It needs no privilege: run it as a
user of the group lineage. With --nats it stores the receipts of ended sessions
and of commands in a stream, each once; docs/FLEET.md has what a host needs.

Each receiver has a cursor in the state directory, which moves when the receiver
has taken the records. A receiver that was down gets the missed events later, as
far as the history has them; gaps are marked "lost". After a restart records may
come twice, with the same ids. The first start sends new events only.

With --metrics it serves GET /metrics of the daemon on TCP, and nothing else, to
every client that can connect: prefer an address of the loopback.

Headers are read from a file only. Secrets in command lines are hidden as in
the history.`,
		Example: `  lineage export --otlp http://127.0.0.1:4318 --state /var/lib/lineage-export
  lineage export --otlp https://otlp.example.com --header-file otlp-headers
  lineage export --ocsf - | jq .
  lineage export --metrics 127.0.0.1:9750`,
	}
	serves(cmd, &o, service.ExportProgram, socket)
	cmd.RegisterFlagCompletionFunc("signals", cli.CompleteList(service.ExportSignals))
	return cmd
}

func linkCommand(socket func() string) *cobra.Command {
	var o service.LinkOptions
	cmd := &cobra.Command{
		Use:   "link",
		Short: "Connect this host to NATS, for signed commands and -H",
		Long: `Take signed commands from NATS servers, and questions of -H, until Ctrl-C. It
needs no privilege: run it as a user of the group lineage. The daemon decides
about each command by its signatures, as with --sign; the link and the servers
can neither make one nor change one. docs/FLEET.md has the subjects, the
streams and the rights that a host needs.`,
		Example: `  lineage link --server tls://nats.example.org:4222 --nkey host.nk
  lineage link --server nats://127.0.0.1:4222 --name web1`,
	}
	serves(cmd, &o, service.LinkProgram, socket)
	return cmd
}

// serves makes cmd start a program with these options.
func serves(cmd *cobra.Command, o interface {
	Flags(*pflag.FlagSet)
	Check() error
}, program string, socket func() string,
) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.Flags(set)
	cmd.Flags().AddFlagSet(set)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.Check(); err != nil {
			return cli.Usage("%s: %w", cmd.Name(), err)
		}
		return become(cmd, program, append([]string{"--socket=" + socket()}, service.ExportArgs(set)...)...)
	}
}

// become replaces this process with a program of ours.
func become(cmd *cobra.Command, program string, args ...string) error {
	path, err := findProgram(program)
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.Name(), err)
	}
	if err := syscall.Exec(path, append([]string{program}, args...), os.Environ()); err != nil {
		return fmt.Errorf("%s: start %s: %w", cmd.Name(), path, err)
	}
	return nil
}

// findProgram looks for a program beside this binary, where "make install" puts it, and in PATH.
func findProgram(program string) (string, error) {
	if self, err := os.Executable(); err == nil {
		dir := filepath.Dir(self)
		for _, path := range []string{filepath.Join(dir, program),
			filepath.Join(dir, "../libexec/lineage", program)} {
			if path, err := exec.LookPath(path); err == nil {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s is not installed: it belongs beside lineage, in libexec/lineage, or in PATH", program)
	}
	return path, nil
}
