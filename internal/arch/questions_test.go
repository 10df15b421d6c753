package arch

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// questions of new users. Each has a word in the README that leads to it, and an answer
// that a page must have.
var questions = []struct{ question, word, page, answer string }{
	{"who holds port 8123?", "why :8123", "README.md", "sudo bin/lineage why :8123"},
	{"what does it cost?", "benchmarks", "README.md", "0.3 to 0.4 µs"},
	{"where can I download it?", "download", "docs/INSTALL.md", "releases/download/v0.1.0"},
	{"how do I run Claude Code in a session?", "Claude Code", "docs/AGENTS.md", "lineage run -q -- claude"},
	{"what about Cursor?", "Cursor", "docs/AGENTS.md", "`cursor-agent`"},
	{"what about aider?", "aider", "docs/AGENTS.md", "`aider`"},
	{"what about goose?", "goose", "docs/AGENTS.md", "`goose`"},
	{"what about Copilot CLI?", "Copilot", "docs/AGENTS.md", "`copilot-cli`"},
	{"which tool call started this server?", "coding agents", "docs/AGENTS.md", "## The tool call that started a server"},
	{"why was my process killed?", "how-tos", "docs/HOWTO.md", "## Why was my process killed?"},
	{"how do I keep my development server?", "how-tos", "docs/HOWTO.md", "lineage keep PID"},
	{"does it work in WSL2?", "questions", "docs/HOWTO.md", "WSL2"},
	{"does it work with podman?", "questions", "docs/HOWTO.md", "podman"},
	{"does it work in VS Code?", "questions", "docs/HOWTO.md", "VS Code"},
	{"does a session survive a reboot?", "questions", "docs/HOWTO.md", "survive a reboot"},
	{"what does level 4 mean?", "levels", "docs/HOW-IT-WORKS.md", "| 4 | 6.16 or newer"},
	{"what does exit code 6 mean?", "exit codes", "docs/COMMANDS.md", "Topic: exit-codes"},
	{"which fields has the JSON?", "API", "docs/API.md", "[openapi.json](openapi.json)"},
	{"how do I remove it?", "removal", "docs/INSTALL.md", "sudo make uninstall"},
	{"how do I send leftovers to Slack?", "Slack", "docs/RECIPES.md", "## Leftovers in Slack"},
	{"how do I send alerts to Slack?", "Slack", "docs/MONITORING.md", "slack_configs:"},
	{"traces, records or alerts: which do I want?", "traces or records?", "docs/MONITORING.md", "## Which do I want?"},
	{"which keys has the policy?", "policy", "docs/POLICY.md", "| `max_rss` |"},
	{"how large is the history?", "policy", "docs/POLICY.md", "How large is the history?"},
	{"does it work in Kubernetes?", "Kubernetes", "docs/INSTALL.md", "kubectl apply -k packaging/kubernetes"},
	{"how do I clean up after GitHub Actions?", "GitHub Actions", "docs/RECIPES.md", "### GitHub Actions"},
	{"… GitLab?", "GitLab", "docs/RECIPES.md", "### GitLab"},
	{"… Jenkins?", "Jenkins", "docs/RECIPES.md", "### Jenkins"},
	{"… Buildkite?", "Buildkite", "docs/RECIPES.md", "### Buildkite"},
}

// targets are the pages that a text of a page leads to.
func targets(page, text string) (all []string) {
	for _, m := range links.FindAllStringSubmatch(text, -1) {
		file, _, _ := strings.Cut(m[1], "#")
		all = append(all, filepath.Join(filepath.Dir(page), file))
	}
	return all
}

// TestAnswers: each is answered on its page, and two links lead there from the line of the
// README that has the word.
func TestAnswers(t *testing.T) {
	readme := read(t, "README.md")
	leads := func(word, page string) bool {
		for line := range strings.Lines(readme) {
			if !strings.Contains(line, word) {
				continue
			}
			first := targets("README.md", line)
			if page == "README.md" || slices.Contains(first, page) {
				return true
			}
			for _, next := range first {
				if strings.HasSuffix(next, ".md") && slices.Contains(targets(next, read(t, next)), page) {
					return true
				}
			}
		}
		return false
	}
	for _, q := range questions {
		if !strings.Contains(read(t, q.page), q.answer) {
			t.Errorf("%s: %s has no %q", q.question, q.page, q.answer)
		}
		if !leads(q.word, q.page) {
			t.Errorf("%s: no line of the README with %q leads to %s", q.question, q.word, q.page)
		}
	}
}

// TestQuickStart: GitHub shows 98 columns of a block without a scroll bar.
func TestQuickStart(t *testing.T) {
	for _, block := range fences.FindAllString(read(t, "README.md"), -1) {
		for line := range strings.Lines(block) {
			if n := len([]rune(line)) - 1; n > 98 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}
