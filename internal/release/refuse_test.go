package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestReleaseRefuses: a release is refused of everything but a clean commit with the tag of VERSION,
// in one line, and make release then builds nothing.
func TestReleaseRefuses(t *testing.T) {
	dir := t.TempDir()
	run := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	git := func(args ...string) {
		t.Helper()
		if out, err := run("git", append([]string{"-c", "user.name=lngtest", "-c", "user.email=lngtest@example.com"}, args...)...); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	commit := func() { t.Helper(); git("add", "-A"); git("commit", "-qm", "lngtest") }
	const notes = "## 1.2.3 (2026-11-24)\n\nWhat is new.\n\n## 1.2.2 (2026-11-01)\n\nWhat was new.\n"

	require.NoError(t, os.CopyFS(filepath.Join(dir, "packaging"), os.DirFS("../../packaging")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "docs"), 0o700))
	write("Makefile", string(require.ReadFile(t, "../../Makefile")))
	write(".gitignore", "bin\n")
	write("VERSION", "1.2.3\n")
	write("CHANGELOG.md", strings.Replace(notes, "2026-11-24", "not released yet", 1))
	write("README.md", "published\n")
	write("docs/INSTALL.md", "not published yet\n")
	git("init", "-q")
	commit()
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"no tag", func() {}, "HEAD has no tag; VERSION wants v1.2.3"},
		{"a tag that is no version", func() { git("tag", "1.2.3") }, "HEAD has no tag; VERSION wants v1.2.3"},
		{"another version", func() { git("tag", "v1.2.30") }, "HEAD is tagged v1.2.30, but VERSION is 1.2.3"},
		{"no date", func() { git("tag", "v1.2.3") }, `CHANGELOG.md has no heading "## 1.2.3 (YYYY-MM-DD)"`},
		{"a changed file", func() { write("CHANGELOG.md", notes) }, "the tree has changes:  M CHANGELOG.md"},
		{"a tag on an older commit", commit, "HEAD has no tag; VERSION wants v1.2.3"},
		{"not published", func() { git("tag", "-f", "v1.2.3") }, `docs/INSTALL.md says "not published yet"`},
		{"a new file", func() { write("docs/INSTALL.md", "\n"); commit(); git("tag", "-f", "v1.2.3"); write("new", "") }, "the tree has changes: ?? new"},
	} {
		step.do()
		if out, err := run("packaging/release.sh", "check"); err == nil || out != "release: "+step.want+"\n" {
			t.Errorf("%s: %v\n%s", step.what, err, out)
		}
	}
	out, err := run("make", "release")
	if line, rest, _ := strings.Cut(
		out,
		"\n",
	); err == nil || line != "release: the tree has changes: ?? new" || !strings.HasPrefix(rest, "make: ***") ||
		strings.Count(rest, "\n") != 1 {
		t.Errorf("make release: %v\n%s", err, out)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "new")))
	if out, err := run("packaging/release.sh", "check"); err != nil || out != "" {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := string(require.ReadFile(t, filepath.Join(dir, "bin/release-notes.md"))); got != "\nWhat is new.\n\n" {
		t.Errorf("notes %q", got)
	}
}
