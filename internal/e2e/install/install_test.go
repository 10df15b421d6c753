//go:build linux

package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const repository = "../../.."

func TestMain(m *testing.M) {
	stage.OnlyFrom("test-install")
	for _, made := range []string{"bin/lineage", "bin/lineage-mcp", "bin/lineage-export", "bin/lineage-link", "bin/man/lineage.1", "bin/completion/lineage.bash"} {
		if _, err := os.Stat(filepath.Join(repository, made)); err != nil {
			fmt.Fprintf(os.Stderr, "install: %v; run make all\n", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func run(t *testing.T, target, dest string, variables ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("make", append([]string{"-C", repository, target, "DESTDIR=" + dest}, variables...)...)
	// Drop the variables of an outer make.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "PREFIX", "DESTDIR", "FORCE", "PURGE"}, name)
	})
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func must(t *testing.T, target, dest string, variables ...string) string {
	t.Helper()
	out, err := run(t, target, dest, variables...)
	if err != nil {
		t.Fatalf("make %s %v: %v\n%s", target, variables, err, out)
	}
	return out
}

func files(t *testing.T, dest string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dest, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dest, path)
		list = append(list, fmt.Sprintf("%o %s", info.Mode().Perm(), name))
		return err
	})
	require.NoError(t, err)
	slices.Sort(list)
	return list
}

// manifest lists what must be under prefix: what is committed, and one page for each
// command.
func manifest(t *testing.T, prefix string) (list []string) {
	t.Helper()
	text := require.ReadFile(t, "testdata/manifest.txt")
	for line := range strings.Lines(string(text)) {
		mode, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(name, "/") {
			name = filepath.Join(prefix, name)
		}
		list = append(list, mode+" "+name[1:])
	}
	commands := require.ReadFile(t, filepath.Join(repository, "docs/COMMANDS.md"))
	for _, m := range regexp.MustCompile(`(?m)^## (lineage.*)$`).FindAllStringSubmatch(string(commands), -1) {
		if m[1] == "lineage completion" { // installed, not described
			continue
		}
		page, section := strings.ReplaceAll(m[1], " ", "-"), "1"
		if m[1] == "lineage daemon" {
			section = "8"
		}
		list = append(list, "644 "+filepath.Join(prefix, "share/man/man"+section, page+"."+section)[1:])
	}
	slices.Sort(list)
	return list
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	for _, f := range want {
		if !slices.Contains(got, f) {
			t.Errorf("missing: %s", f)
		}
	}
	for _, f := range got {
		if !slices.Contains(want, f) {
			t.Errorf("not expected: %s", f)
		}
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text := require.ReadFile(t, filepath.Join(path...))
	return string(text)
}

func TestInstall(t *testing.T) {
	for _, prefix := range []string{"/usr/local", "/usr", "/opt/lngtest-lineage"} {
		t.Run(prefix, func(t *testing.T) {
			dest := filepath.Join(t.TempDir(), "a root")
			set := "PREFIX=" + prefix
			if prefix == "/usr/local" {
				set = "PREFIX=" // the default
			}
			require.Contains(t, must(t, "install", dest, set), "nothing was started")
			same(t, files(t, dest), manifest(t, prefix))
			schema := "$schema=" + filepath.Join(prefix, "share/doc/lineage/policy.schema.json") + "\n"
			require.Contains(t, read(t, dest, prefix, "share/doc/lineage/policy.yaml"), schema)
			for file, want := range map[string]string{
				filepath.Join(prefix, "lib/systemd/system/lineage.service"):        "\nExecStart=" + prefix + "/bin/lineage daemon ",
				filepath.Join(prefix, "lib/systemd/system/lineage-export.service"): "\nExecStart=" + prefix + "/bin/lineage export ",
				"/etc/apparmor.d/lineage-daemon":                                   "\n  " + prefix + "/bin/lineage mrix,\n",
			} {
				if text := read(t, dest, file); !strings.Contains(text, want) || strings.Contains(text, "@BINDIR@/") {
					t.Errorf("%s has not %q:\n%s", file, want, text)
				}
			}
			if info, err := os.Stat(filepath.Join(dest, "etc/lineage")); err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("/etc/lineage: %v %v", info, err)
			}

			// Files that the host has changed survive an upgrade and an uninstall.
			own := map[string]string{
				"etc/lineage/policy.yaml":          "version: 1\n# mine\n",
				"var/lib/lineage/history.db":       "history",
				"var/log/lineage/audit.jsonl":      "audit",
				prefix[1:] + "/share/man/man1/lin": "another's page",
			}
			for name, text := range own {
				path := filepath.Join(dest, name)
				require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)))
			}
			must(t, "install", dest, set)
			out := must(t, "uninstall", dest, set)
			for _, kept := range []string{"/etc/lineage/policy.yaml", "/var/lib/lineage", "/var/log/lineage"} {
				if !strings.Contains(out, "kept: "+kept+"\n") {
					t.Errorf("does not say that %s is kept: %s", kept, out)
				}
			}
			var left []string
			for name, text := range own {
				left = append(left, "600 "+name)
				if got := read(t, dest, name); got != text {
					t.Errorf("%s: %q", name, got)
				}
			}
			same(t, files(t, dest), left)

			must(t, "uninstall", dest, set, "PURGE=1")
			same(t, files(t, dest), []string{"600 " + prefix[1:] + "/share/man/man1/lin"})
		})
	}
}

func TestInstallRefuses(t *testing.T) {
	dest := t.TempDir()
	for _, tt := range [][]string{{dest, "PREFIX=usr"}, {dest, "PREFIX=/opt/a b"}, {dest, "PREFIX=/a|b"}, {"relative"}} {
		for _, target := range []string{"install", "uninstall"} {
			out, err := run(t, target, tt[0], tt[1:]...)
			if err == nil || !strings.Contains(out, "want an absolute path") {
				t.Errorf("%s %v: %v %s", target, tt, err, out)
			}
		}
	}
	same(t, files(t, dest), nil)
}

// heading is a title as a terminal gets it: each letter twice, for bold.
func heading(title string) []byte {
	var b bytes.Buffer
	for i, word := range strings.Fields(title) {
		if i > 0 {
			b.WriteByte(' ')
		}
		for _, letter := range word {
			fmt.Fprintf(&b, "%c\b%c", letter, letter)
		}
	}
	return b.Bytes()
}

// The page of the policy has every key of its schema.
func TestPolicyPage(t *testing.T) {
	page := require.ReadFile(t, filepath.Join(repository, "packaging/man/lineage-policy.5"))
	schema := require.ReadFile(t, filepath.Join(repository, "docs/policy.schema.json"))
	var document any
	require.NoError(t, json.Unmarshal(schema, &document))
	keys := map[string]bool{}
	propertyNames(document, keys)
	if len(keys) < 30 {
		t.Fatalf("the schema has only %d keys", len(keys))
	}
	for key := range keys {
		if !regexp.MustCompile(`\\fB` + key + `\\fR|\.SS ` + key + `\n`).Match(page) {
			t.Errorf("lineage-policy(5) lacks %s", key)
		}
	}
}

// propertyNames collects the keys that a JSON schema allows.
func propertyNames(schema any, names map[string]bool) {
	switch s := schema.(type) {
	case map[string]any:
		for key, value := range s {
			if properties, ok := value.(map[string]any); ok && key == "properties" {
				for name := range properties {
					names[name] = true
				}
			}
			propertyNames(value, names)
		}
	case []any:
		for _, value := range s {
			propertyNames(value, names)
		}
	}
}

// man renders every page without a warning.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(repository, "bin/man/*"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%v %v", pages, err)
	}
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Fatal("no mandoc; run make deps")
	}
	for _, page := range pages {
		if out, err := exec.Command(mandoc, "-T", "lint", "-W", "error", page).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v: %s", err, out)
		}
		text, err := exec.Command(mandoc, "-T", "ascii", page).Output()
		for _, title := range []string{"NAME", "DESCRIPTION", "FILES", "SEE ALSO"} {
			if err != nil || !bytes.Contains(text, heading(title)) {
				t.Errorf("%s renders without %s: %v %s", page, title, err, text)
			}
		}
	}
}

// Each shell can load its own completion.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("no %s here: its completion was not tried", shell)
			continue
		}
		file := filepath.Join(repository, "bin/completion/lineage."+shell)
		if out, err := exec.Command(path, "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v: %s", shell, err, out)
		}
	}
}
