//go:build linux

package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// An agent is a coding agent, at the version that testdata/fetch-agents.sh installs.
type agent struct {
	name, version  string
	bin            string // the command, as npm links it
	once, terminal func(prompt string) []string
	quit           string // what its user types to leave it; "": Ctrl-D
	env            func(url string) []string
	// files configure it: the model, and the MCP servers by name. Paths are below its home.
	files func(x *trial, servers map[string][]string) map[string]any
}

var (
	claude = &agent{
		name: "claude-code", version: "2.1.332", bin: "claude", quit: "/exit",
		once:     func(p string) []string { return append([]string{"-p", p}, claudeFlags...) },
		terminal: func(p string) []string { return append([]string{p}, claudeFlags...) },
		env: func(url string) []string {
			return []string{"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_AUTH_TOKEN=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1"}
		},
		files: func(x *trial, servers map[string][]string) map[string]any {
			mcp := map[string]any{}
			for name, command := range servers {
				mcp[name] = map[string]any{"command": command[0], "args": command[1:]}
			}
			return map[string]any{
				".claude.json": map[string]any{"hasCompletedOnboarding": true, "theme": "dark", "mcpServers": mcp, "projects": map[string]any{
					x.work: map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}}},
				".claude/settings.json": map[string]any{"permissions": map[string]any{"allow": []string{"Bash", "mcp__one", "mcp__lineage"}}},
			}
		},
	}
	codex = &agent{
		name: "codex", version: "0.171.0", bin: "codex",
		once: func(p string) []string {
			return []string{"exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", p}
		},
		terminal: func(p string) []string {
			return []string{"--no-daemon", "--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox", p}
		},
		env: func(string) []string { return nil },
		files: func(x *trial, servers map[string][]string) map[string]any {
			text := fmt.Sprintf(
				"model = \"scripted\"\nmodel_provider = \"local\"\n[model_providers.local]\nname = \"local\"\nbase_url = %q\nwire_api = \"responses\"\n",
				x.model.URL+"/v1",
			)
			for name, command := range servers {
				args, err := json.Marshal(command[1:])
				require.NoError(x.T, err)
				text += fmt.Sprintf("[mcp_servers.%s]\ncommand = %q\nargs = %s\n", name, command[0], args)
			}
			return map[string]any{".codex/config.toml": text}
		},
	}
	gemini = &agent{
		name: "gemini-cli", version: "0.61.0", bin: "gemini", quit: "/quit",
		once:     func(p string) []string { return []string{"--yolo", "-m", "gemini-2.5-pro", "-p", p} },
		terminal: func(p string) []string { return []string{"--yolo", "-m", "gemini-2.5-pro", "-i", p} },
		env: func(url string) []string {
			return []string{"GEMINI_API_KEY=none", "GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_CLI_TRUST_WORKSPACE=true"}
		},
		files: func(x *trial, servers map[string][]string) map[string]any {
			mcp := map[string]any{}
			for name, command := range servers {
				mcp[name] = map[string]any{"command": command[0], "args": command[1:], "trust": true}
			}
			return map[string]any{".gemini/settings.json": map[string]any{
				"security":   map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}},
				"general":    map[string]any{"enableAutoUpdate": false},
				"privacy":    map[string]any{"usageStatisticsEnabled": false},
				"mcpServers": mcp,
			}}
		},
	}
	opencode = &agent{
		name: "opencode", version: "1.18.33", bin: "opencode", quit: "/exit",
		once:     func(p string) []string { return []string{"run", p} },
		terminal: func(p string) []string { return []string{"--prompt", p} },
		env: func(string) []string {
			return []string{"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
				"npm_config_registry=http://127.0.0.1:1/", "npm_config_offline=true"}
		},
		files: func(x *trial, servers map[string][]string) map[string]any {
			mcp := map[string]any{}
			for name, command := range servers {
				mcp[name] = map[string]any{"type": "local", "command": command, "enabled": true}
			}
			return map[string]any{".config/opencode/opencode.json": map[string]any{
				"model": "anthropic/claude-sonnet-4-5", "autoupdate": false, "share": "disabled", "mcp": mcp,
				"provider":   map[string]any{"anthropic": map[string]any{"options": map[string]any{"baseURL": x.model.URL + "/v1", "apiKey": "none"}}},
				"permission": map[string]any{"bash": "allow", "edit": "allow"},
			}}
		},
	}
	agents = []*agent{claude, codex, gemini, opencode}
)

// A variadic option would swallow the prompt, so it comes last.
var claudeFlags = []string{"--permission-mode", "default", "--model", "claude-sonnet-4-5"}

// path is the agent's command. A test is skipped if its agent is not installed, or if "make
// test-agents AGENTS=…" does not name it.
func (a *agent) path(t *testing.T) string {
	t.Helper()
	if chosen := os.Getenv("LNGTEST_AGENTS"); chosen != "" && !slices.Contains(strings.Fields(chosen), a.name) {
		t.Skipf("%s was not chosen", a.name)
	}
	dir, err := filepath.Abs(filepath.Join("../../../.cache/agents", a.name+"-"+a.version))
	require.NoError(t, err)
	if dir, err = filepath.EvalSymlinks(dir); errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s %s is not installed; run make test-agents", a.name, a.version)
	} else if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "installed")); err != nil {
		t.Skipf("%s %s was not installed: %v", a.name, a.version, err)
	}
	return filepath.Join(dir, "node_modules/.bin", a.bin)
}
