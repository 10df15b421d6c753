package policy

import (
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// The rules for build daemons match the servers, and not what their users run.
func TestBuildDaemonsFile(t *testing.T) {
	p, err := Load("../../packaging/build-daemons.yaml")
	require.NoError(t, err)
	matched := map[string]bool{}
	const codex = "/home/u/.codex/packages/app-server-daemon/releases/0.171.0-x86_64-unknown-linux-musl/bin/codex"
	for _, tt := range []struct {
		facts Facts
		rule  string
	}{
		{Facts{Exe: "/usr/lib/jvm/java-21-openjdk-amd64/bin/java", Argv: []string{"/usr/lib/jvm/x/bin/java", "-cp", "x.jar", "org.gradle.launcher.daemon.bootstrap.GradleDaemon", "8.9"}}, "gradle"},
		{Facts{Exe: "/usr/lib/jvm/java-21-openjdk-amd64/bin/java", Argv: []string{"java", "-jar", "server.jar"}}, ""},
		{Facts{Exe: "/home/u/.cache/bazel/_bazel_u/install/0f1e/embedded_tools/jdk/bin/java", Argv: []string{"bazel(app)", "--output_base=/home/u/.cache/bazel/_bazel_u/5a", "-jar"}}, "bazel"},
		{Facts{Exe: "/usr/bin/sccache", Argv: []string{"/usr/bin/sccache", "--start-server"}}, "sccache"},
		{Facts{Exe: "/usr/bin/sccache", Argv: []string{"sccache", "gcc", "-c", "a.c"}}, ""},
		{Facts{Exe: "/usr/local/bin/watchman", Argv: []string{"/usr/local/bin/watchman", "--foreground", "--logfile=/x"}}, "watchman"},
		{Facts{Exe: "/usr/local/bin/watchman", Argv: []string{"watchman", "watch-list"}}, ""},
		{Facts{Exe: "/usr/lib/git-core/git", Argv: []string{"/usr/lib/git-core/git", "credential-cache--daemon", "/home/u/.cache/git/credential/socket"}},
			"git-credential-cache"},
		{Facts{Exe: "/usr/lib/git-core/git", Argv: []string{"/usr/lib/git-core/git", "credential-cache", "store"}}, ""},
		{Facts{Exe: "/usr/bin/gpg-agent", Argv: []string{"gpg-agent", "--homedir", "/home/u/.gnupg", "--use-standard-socket", "--daemon"}}, "gpg-agent"},
		{Facts{Exe: codex, Argv: []string{codex, "app-server", "--listen", "unix://", "--managed-daemon"}}, "codex"},
		{Facts{Exe: codex, Argv: []string{codex, "app-server", "daemon", "pid-update-loop"}}, ""},
	} {
		got := ""
		tt.facts.Runs = proven
		if r := p.SharedServer(&tt.facts); r != nil {
			got = r.Name
		}
		if got != tt.rule {
			t.Errorf("%+v: rule %q, want %q", tt.facts, got, tt.rule)
		}
		matched[got] = true
	}
	for _, r := range p.Brokers.Shared {
		if !matched[r.Name] {
			t.Errorf("nothing matched %s", r.Name)
		}
	}
}

// The shipped rules are all disabled. When enabled they match what they are for, and
// nothing that is only similar.
func TestAgentsFile(t *testing.T) {
	const file = "../../packaging/agents.yaml"
	shipped, err := Load(file)
	require.NoError(t, err)
	for i := range shipped.Agents {
		if r := &shipped.Agents[i]; r.Enabled {
			t.Errorf("%s is enabled", r.Name)
		}
	}
	text := require.ReadFile(t, file)
	p, err := Parse(file, []byte(strings.ReplaceAll(string(text), "enabled: false", "enabled: true")))
	require.NoError(t, err)
	service := &Facts{Comm: "node", Exe: "/usr/bin/node", Argv: []string{"node", "/opt/worker/worker-service.cjs", "--daemon"}}
	editor := &Facts{Comm: "node", Exe: "/usr/bin/node", Argv: []string{"node", "/opt/editor/main.js", "about worker-service.cjs"}}
	npm := "/usr/lib/node_modules/@google/gemini-cli/bundle/gemini.js"
	matched := map[string]bool{}
	for _, tt := range []struct {
		facts Facts
		rule  string
	}{
		{Facts{Comm: "claude", Exe: "/home/u/.local/share/claude/versions/2.1.0"}, "claude-code"},
		{Facts{Comm: "claude", Parent: service}, "worker-task"},
		{Facts{Comm: "claude", Parent: &Facts{Comm: "bash", Parent: service}}, "claude-code"},
		{Facts{Comm: "claude", Parent: editor}, "claude-code"},
		{Facts{Comm: "codex"}, "codex"},
		{Facts{Comm: "gemini", Exe: "/usr/bin/env", Argv: []string{"env", "node", npm}}, "gemini-cli"},
		{Facts{Comm: "node", Exe: "/usr/bin/node", Argv: []string{"node", npm, "-p", "x"}}, "gemini-cli-by-argv"},
		{Facts{Comm: "node", Exe: "/usr/bin/node", Argv: []string{"node", "/srv/server.js"}}, ""},
		{Facts{Comm: "cursor-agent"}, "cursor-agent"},
		{Facts{Comm: "aider"}, "aider"},
		{Facts{Comm: "python3", Argv: []string{"python3", "-m", "aider"}}, ""},
		{Facts{Comm: "goose"}, "goose"},
		{Facts{Comm: "goosed"}, "goose"},
		{Facts{Comm: "opencode"}, "opencode"},
		{Facts{Comm: "openhands"}, "openhands"},
		{Facts{Comm: "copilot"}, "copilot-cli"},
		{Facts{Comm: "claude-desktop"}, ""},
		{Facts{Comm: "bash", Argv: []string{"bash", "-c", "claude"}}, ""},
		{Facts{}, ""},
	} {
		got := ""
		if r := p.Agent(&tt.facts); r != nil {
			got = r.Name
		}
		if got != tt.rule {
			t.Errorf("%+v: rule %q, want %q", tt.facts, got, tt.rule)
		}
		matched[got] = true
	}
	page := string(require.ReadFile(t, "../../docs/AGENTS.md"))
	for i := range p.Agents {
		r := &p.Agents[i]
		if !matched[r.Name] {
			t.Errorf("nothing matched %s", r.Name)
		}
		if !strings.Contains(page, "`"+r.Name+"`") {
			t.Errorf("docs/AGENTS.md does not name %s", r.Name)
		}
		if r.Nests() != (r.Name == "worker-task") {
			t.Errorf("%s nests: %v", r.Name, r.Nests())
		}
	}
}
