//go:build linux

package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// TestRPMScripts installs, upgrades and removes the package with rpm, in a separate system
// in a folder, where its scripts really run. rpm runs them in that root, and this machine's
// files stay unchanged.
func TestRPMScripts(t *testing.T) {
	fetch := exec.Command(repository+"/testdata/vm/systemd/debian.sh", repository+"/.cache/systemd", "bookworm")
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Skipf("no root: %v: %s", err, out)
	}
	root := t.TempDir()
	command(t, "cp", "-a", repository+"/.cache/systemd/bookworm/.", root)
	for _, dir := range []string{"usr", "etc/lineage"} {
		if path, err := filepath.EvalSymlinks(filepath.Join(root, dir)); err == nil && !strings.HasPrefix(path, root+"/") {
			t.Fatalf("%s leads out of the root: %s", dir, path)
		}
	}
	const own = "/usr/bin/lineage"
	before, _ := os.Stat(own)
	file := made(t, kinds[2].pattern)
	rpm := func(args ...string) (string, error) {
		out, err := exec.Command("rpm", append([]string{"--root", root, "--dbpath", "/var/lib/rpm", "--nosignature"}, args...)...).CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := rpm(args...)
		if err != nil || strings.Contains(out, "warning") || strings.Contains(out, "scriptlet failed") {
			t.Fatalf("rpm %q: %v: %s", args, err, out)
		}
		return out
	}
	has := func(name string) bool {
		_, err := os.Lstat(filepath.Join(root, name))
		return err == nil
	}
	must("--initdb")
	must("-i", "--nodeps", file)
	if groups, err := os.ReadFile(filepath.Join(root, "etc/group")); err != nil || !strings.Contains(string(groups), "\nlineage:") {
		t.Errorf("no group lineage: %v", err)
	}
	for _, name := range []string{own, "/usr/lib/systemd/system/lineage.service", "/etc/lineage", "/etc/apparmor.d/lineage-daemon"} {
		if !has(name) {
			t.Errorf("no %s", name)
		}
	}
	must("-U", "--nodeps", "--replacepkgs", file)
	must("-V", "lineage")

	// A removal with a live session is refused, and the package stays as it was.
	program := filepath.Join(root, own)
	kept := require.ReadFile(t, program)
	for _, dir := range []string{"sys/fs/bpf/lineage", "var/lib/lineage"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o700))
	}
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho k3x9q2\n"), 0o755))
	if out, err := rpm("-e", "lineage"); err == nil || !strings.Contains(out, "live sessions: 1") {
		t.Errorf("removed with a live session: %v: %s", err, out)
	}
	if out := must("-q", "lineage"); !strings.HasPrefix(out, "lineage-") || !has("/usr/libexec/lineage/lineage-export") {
		t.Errorf("after a removal that was refused: %s", out)
	}
	require.NoError(t, os.WriteFile(program, kept, 0o755))
	os.Remove(filepath.Join(root, "sys/fs/bpf/lineage"))
	must("-e", "lineage")
	for _, name := range []string{own, "/usr/libexec/lineage/lineage-export", "/usr/lib/systemd/system/lineage.service", "/etc/apparmor.d/lineage-daemon"} {
		if has(name) {
			t.Errorf("%s is left", name)
		}
	}
	if !has("/var/lib/lineage") {
		t.Error("the history is gone")
	}
	if after, _ := os.Stat(own); (before == nil) != (after == nil) || before != nil && !os.SameFile(before, after) {
		t.Errorf("%s of this machine has changed", own)
	}
}
