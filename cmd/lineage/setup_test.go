package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// setUp runs setup as a user whose home is a directory.
func setUp(t *testing.T, home string, args ...string) (out, complaint string, code int) {
	t.Helper()
	return program(t, append([]string{"setup"}, args...), "HOME="+home, "SUDO_UID=", "CLAUDE_CONFIG_DIR=")
}

// Settings that are kept in a repository are a link into it. They are left alone, and
// the message says what to do, which works.
func TestSetupLink(t *testing.T) {
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("needs patch")
	}
	home := t.TempDir()
	real, link := filepath.Join(home, "dotfiles", "claude.json"), filepath.Join(home, ".claude", "settings.json")
	for _, path := range []string{real, link} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	}
	const before = "{\n\t\"model\": \"opus\"\n}\n"
	require.NoError(t, os.WriteFile(real, []byte(before), 0o600))
	require.NoError(t, os.Symlink(real, link))
	_, complaint, code := setUp(t, home, "claude", "--yes")
	want := "lineage: setup: left alone: " + link + " is a symbolic link; to change the file that it leads to: lineage setup claude-code --print | patch " + real + "\n"
	if complaint != want || code != api.ExitFailed {
		t.Errorf("exit code %d, %q, want %q", code, complaint, want)
	}
	if text, err := os.ReadFile(real); err != nil || string(text) != before {
		t.Fatalf("%v: %s", err, text)
	}
	diff, complaint, code := setUp(t, home, "claude-code", "--print")
	if code != 0 || complaint != "" || !strings.Contains(diff, "\n \t\"model\"") {
		t.Errorf("exit code %d, %s, %s", code, complaint, diff)
	}
	patch := exec.CommandContext(t.Context(), "patch", "--posix", real)
	patch.Stdin = strings.NewReader(diff)
	if out, err := patch.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text, err := os.ReadFile(link); err != nil || strings.Count(string(text), " hook claude-code") != 7 {
		t.Errorf("%v: %s", err, text)
	}
	if out, complaint, code := setUp(t, home, "claude", "--print"); out != "" && !strings.Contains(complaint+out, "nothing to change") || code != 0 {
		t.Errorf("exit code %d, %s, %s", code, out, complaint)
	}
}

// People type the name of the command.
func TestSetupNames(t *testing.T) {
	for name, file := range map[string]string{"claude": ".claude/settings.json", "gemini": ".gemini/settings.json", "gemini-cli": ".gemini/settings.json", "codex": ".codex/hooks.json"} {
		home := t.TempDir()
		out, complaint, code := setUp(t, home, name, "--print")
		if code != 0 || complaint != "" || !strings.Contains(out, "+++ "+filepath.Join(home, file)) {
			t.Errorf("%s: exit code %d, %s, %s", name, code, complaint, out)
		}
	}
	if _, complaint, code := setUp(t, t.TempDir(), "clod"); code != api.ExitUsage || !strings.Contains(complaint, `invalid AGENT "clod"`) {
		t.Errorf("exit code %d, %s", code, complaint)
	}
}

// Codex runs no hook that its user has not trusted, and its exec does not ask. A setup says so.
func TestSetupUntrusted(t *testing.T) {
	home := t.TempDir()
	says := func(want bool, args ...string) {
		t.Helper()
		if _, complaint, code := setUp(t, home, args...); strings.Contains(complaint, "codex exec does not ask") != want || code != 0 {
			t.Errorf("%v: exit code %d, %s", args, code, complaint)
		}
	}
	says(true, "codex", "--yes")
	says(true, "codex", "--yes")
	says(false, "codex", "--undo", "--yes")
	says(false, "claude", "--yes")
}

// The hooks of a user are not written by root for that user.
func TestSetupSudo(t *testing.T) {
	require.Root(t)
	_, complaint, code := program(t, []string{"setup", "claude", "--yes"}, "HOME="+t.TempDir(), "SUDO_UID=1000")
	if code != api.ExitUsage || !strings.Contains(complaint, "run it without sudo") {
		t.Errorf("exit code %d, %s", code, complaint)
	}
}
