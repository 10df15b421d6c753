//go:build linux

package packages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestRelease makes the release of one tag twice, the second time in another folder, later and with
// another umask: the same bytes, signature and notes included. It has every file that INSTALL.md
// names. The tag is in a clone.
func TestRelease(t *testing.T) {
	version := strings.TrimSpace(string(require.ReadFile(t, repository+"/VERSION")))
	dir := t.TempDir()
	one, other := filepath.Join(dir, "one"), filepath.Join(dir, "another folder")
	command(t, "git", "clone", "-q", "--no-tags", repository, one)
	edit := func(name string, change func(string) string) {
		t.Helper()
		text := string(require.ReadFile(t, filepath.Join(one, name)))
		require.NoError(t, os.WriteFile(filepath.Join(one, name), []byte(change(text)), 0o600))
	}
	edit("CHANGELOG.md", func(text string) string {
		return regexp.MustCompile(`(?m)^## `+regexp.QuoteMeta(version)+` \(.*\)$`).ReplaceAllString(text, "## "+version+" (2026-01-02)")
	})
	for _, page := range []string{"README.md", "docs/INSTALL.md"} {
		edit(page, func(text string) string { return strings.ReplaceAll(text, "not published yet", "published") })
	}
	key := filepath.Join(dir, "key")
	command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	require.NoError(t, os.WriteFile(filepath.Join(one, "packaging/allowed_signers"), fmt.Appendf(nil, "lineage %s", require.ReadFile(t, key+".pub")), 0o600))
	command(t, "git", "-C", one, "add", "-A")
	command(t, "git", "-C", one, "-c", "user.name=lngtest", "-c", "user.email=lngtest@example.com", "commit", "-qm", "lngtest")
	command(t, "git", "-C", one, "tag", "v"+version)
	command(t, "git", "clone", "-q", one, other)

	release := func(where, umask string, env ...string) map[string]string {
		t.Helper()
		cache, err := filepath.Abs(repository + "/.cache")
		require.NoError(t, err)
		require.NoError(t, os.Symlink(cache, filepath.Join(where, ".cache")))
		build := exec.Command("bash", "-c", "umask "+umask+"; exec make release RELEASE_KEY="+key)
		build.Dir, build.Env = where, append(append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL="), env...)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		made := map[string]string{"notes": string(require.ReadFile(t, filepath.Join(where, "bin/release-notes.md")))}
		files, err := os.ReadDir(filepath.Join(where, "bin/dist"))
		require.NoError(t, err)
		for _, f := range files {
			made[f.Name()] = digest(t, filepath.Join(where, "bin/dist", f.Name()))
		}
		return made
	}
	first := release(one, "022")
	second := release(other, "077", "TZ=Pacific/Auckland", "LC_ALL=C")
	for name, is := range first {
		if second[name] != is {
			t.Errorf("%s differs: %s, %s", name, is, second[name])
		}
	}
	if len(second) != len(first) || len(first) < 12 || first["SHA256SUMS.sig"] == "" || !strings.Contains(first["notes"], "first release") {
		t.Errorf("first %v, second %v", first, second)
	}
	named := regexp.MustCompile(`\blineage[-_]`+regexp.QuoteMeta(version)+`[-_.a-z0-9]*\.(deb|rpm|tar\.gz|tar)\b`).
		FindAllString(string(require.ReadFile(t, repository+"/docs/INSTALL.md")), -1)
	for _, name := range named {
		if first[name] == "" {
			t.Errorf("INSTALL.md names %s", name)
		}
	}
	if len(named) < 4 {
		t.Errorf("INSTALL.md names %q", named)
	}
	t.Logf("figure: %d files of %s, the same bytes twice", len(first), version)
}
