//go:build linux

package packages

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/e2e/stage"
	"github.com/lineage-ebpf/lineage/internal/require"
)

const (
	repository = "../../.."
	dist       = repository + "/bin/dist"
)

func TestMain(m *testing.M) {
	stage.OnlyFrom("test-packages")
	os.Exit(m.Run())
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// made returns the one file in dist that the pattern matches.
func made(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dist, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v %v; run make dist", pattern, found, err)
	}
	return found[0]
}

// kinds are the kinds of packages: file pattern, the architecture's name in ELF, and
// how to unpack them.
var kinds = []struct{ pattern, machine, unpack string }{
	{"lineage_*_amd64.deb", "X86-64", `dpkg-deb -x "$1" "$2"`},
	{"lineage_*_arm64.deb", "AArch64", `dpkg-deb -x "$1" "$2"`},
	{"lineage-*.x86_64.rpm", "X86-64", `rpm2cpio "$1" | cpio -idm --quiet --no-absolute-filenames -D "$2"`},
	{"lineage-*.aarch64.rpm", "AArch64", `rpm2cpio "$1" | cpio -idm --quiet --no-absolute-filenames -D "$2"`},
}

// Every package has the files of `make install PREFIX=/usr`, and a program of its
// architecture.
func TestFiles(t *testing.T) {
	installed := t.TempDir()
	command(t, "make", "-C", repository, "install", "PREFIX=/usr", "DESTDIR="+installed)
	want := files(t, installed)
	for _, kind := range kinds {
		t.Run(kind.pattern, func(t *testing.T) {
			root := t.TempDir()
			command(t, "bash", "-euc", kind.unpack, "unpack", made(t, kind.pattern), root)
			got := files(t, root)
			deb := strings.HasSuffix(kind.pattern, ".deb")
			for name := range want {
				if deb { // as Debian requires
					if name == "usr/share/doc/lineage/LICENSE" {
						name = "usr/share/doc/lineage/copyright"
					}
					if strings.HasPrefix(name, "usr/share/man/") || strings.HasSuffix(name, "/NOTICES") {
						name += ".gz"
					}
					name = strings.Replace(name, "zsh/site-functions", "zsh/vendor-completions", 1)
				}
				if !got[name] {
					t.Errorf("missing: %s", name)
				}
				delete(got, name)
			}
			if deb {
				delete(got, "usr/share/doc/lineage/changelog.gz")
				delete(got, "usr/share/lintian/overrides/lineage")
			}
			for name := range got {
				t.Errorf("not expected: %s", name)
			}
			program := filepath.Join(root, "usr/bin/lineage")
			if out := command(t, "readelf", "-h", program); !strings.Contains(out, kind.machine) {
				t.Errorf("the program is not for %s", kind.machine)
			}
			if info, err := os.Stat(filepath.Join(root, "etc/lineage")); err != nil || !info.IsDir() {
				t.Errorf("/etc/lineage: %v", err)
			}
			unit, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/lineage.service"))
			if err != nil || !bytes.Contains(unit, []byte("\nExecStart=/usr/bin/lineage daemon")) {
				t.Errorf("the unit: %v", err)
			}
		})
	}
}

func files(t *testing.T, root string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, name := range strings.Fields(command(t, "find", root, "-type", "f", "-printf", "%P\n")) {
		all[name] = true
	}
	return all
}

func TestLintian(t *testing.T) {
	args := []string{"--fail-on", "error,warning", "--allow-root", made(t, kinds[0].pattern), made(t, kinds[1].pattern)}
	require.Equal(t, strings.TrimSpace(command(t, "lintian", args...)), "")
}

// The bill of materials of a program matches Go's build information and the program's hash.
func TestSBOM(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		for name, modules := range map[string]int{"lineage": 20, "lineage-mcp": 3, "lineage-export": 3, "lineage-link": 3} {
			t.Run(name+"_"+arch, func(t *testing.T) { testSBOM(t, name, arch, modules) })
		}
	}
}

func testSBOM(t *testing.T, name, arch string, modules int) {
	text := require.ReadFile(t, made(t, name+"-[0-9]*-linux-"+arch+".cdx.json"))
	var bom struct {
		Metadata struct {
			Component struct{ Hashes []struct{ Content string } }
		}
		Components []struct {
			Name, Version string
			Licenses      []struct{ Expression string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &bom))
	program := filepath.Join(repository, "bin", arch, name)
	var got, want []string
	for _, c := range bom.Components {
		if c.Name != "std" {
			got = append(got, c.Name+" "+c.Version)
		}
		if len(c.Licenses) != 1 || c.Licenses[0].Expression == "" {
			t.Errorf("%s: no licence", c.Name)
		}
	}
	for line := range strings.Lines(command(t, "go", "version", "-m", program)) {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" && !strings.HasPrefix(f[1], "github.com/lineage-ebpf/") {
			want = append(want, f[1]+" "+f[2])
		}
	}
	if len(want) < modules || !slices.Equal(got, want) {
		t.Errorf("%s: the bill has %v, go version -m %v", arch, got, want)
	}
	if h := bom.Metadata.Component.Hashes; len(h) != 1 || h[0].Content != digest(t, program) {
		t.Errorf("%s: hashes %v", arch, h)
	}
}

func digest(t *testing.T, file string) string {
	t.Helper()
	content := require.ReadFile(t, file)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// The configuration of an image has the digest in its name, that of its only layer in itself, and
// the program is the only file.
func TestImage(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		f, err := os.Open(made(t, "*-image-"+arch+".tar"))
		require.NoError(t, err)
		defer f.Close()
		entries := untar(t, f)
		var manifest []struct {
			Config   string
			RepoTags []string
			Layers   []string
		}
		var config struct {
			Architecture string
			Config       struct{ Entrypoint []string }
			RootFS       struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		sum := func(name string) string { return fmt.Sprintf("%x", sha256.Sum256(entries[name])) }
		parse(t, entries["manifest.json"], &manifest)
		parse(t, entries[manifest[0].Config], &config)
		if len(entries) != 3 || len(manifest) != 1 || len(manifest[0].Layers) != 1 || len(manifest[0].RepoTags) != 1 || config.Architecture != arch ||
			!slices.Equal(config.Config.Entrypoint, []string{"/lineage"}) || manifest[0].Config != sum(manifest[0].Config)+".json" ||
			!slices.Equal(config.RootFS.DiffIDs, []string{"sha256:" + sum(manifest[0].Layers[0])}) {
			t.Errorf("%d files, %+v, %+v", len(entries), manifest, config)
		}
		layer := untar(t, bytes.NewReader(entries[manifest[0].Layers[0]]))
		program := require.ReadFile(t, filepath.Join(repository, "bin", arch, "lineage"))
		if len(layer) != 1 || !bytes.Equal(layer["lineage"], program) {
			t.Errorf("the layer has %d files", len(layer))
		}
	}
}

func parse(t *testing.T, text []byte, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(text, into))
}

func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s belongs to %d:%d", h.Name, h.Uid, h.Gid)
		}
		all[h.Name], err = io.ReadAll(archive)
		require.NoError(t, err)
	}
}
