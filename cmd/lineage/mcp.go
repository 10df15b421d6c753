package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// mcpProgram has dependencies that the daemon's binary must not have.
const mcpProgram = "lineage-mcp"

func (a *app) mcpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Serve an agent's questions about what it left running (MCP)",
		Long: `Serve the Model Context Protocol on stdin and stdout, for an agent's
configuration. The tools are list_running, explain and ports, which change
nothing, end_branch, which needs the token of a plan, and keep, which the policy
has to allow. They are about the session of the agent that starts the server:
the daemon gives it a member's rights, and nothing about other sessions.

Without a daemon every answer comes within 300ms, and the reason is given once.`,
		Example: `  claude mcp add lineage -- lineage mcp
  codex mcp add lineage -- lineage mcp`,
		Args:              argsCount(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			path, err := findMCP()
			if err != nil {
				return err
			}
			if err := syscall.Exec(path, []string{mcpProgram, "-socket", a.socketPath()}, os.Environ()); err != nil {
				return fmt.Errorf("mcp: start %s: %w", path, err)
			}
			return nil
		},
	}
}

// findMCP looks beside this binary, where "make install" puts it, and in PATH.
func findMCP() (string, error) {
	if self, err := os.Executable(); err == nil {
		dir := filepath.Dir(self)
		for _, path := range []string{filepath.Join(dir, mcpProgram), filepath.Join(dir, "../libexec/lineage", mcpProgram)} {
			if path, err := exec.LookPath(path); err == nil {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath(mcpProgram)
	if err != nil {
		return "", fmt.Errorf("mcp: %s is not installed: it belongs beside lineage, in libexec/lineage, or in PATH", mcpProgram)
	}
	return path, nil
}
